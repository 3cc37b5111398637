//! What a run is about beside its operations: drawn from the seed, or named.

use std::{collections::BTreeSet, str::FromStr};

use fastrand::Rng;

/// Something that a run may have or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// The local cluster owns the specs.
    Push,
    /// Contents of hundreds of KiB.
    Large,
    /// The targets' servers come to drop a field, and to keep it again.
    Schemas,
    /// A kind is taken away from the sources' cluster with all its objects, and comes again.
    Kinds,
    /// A remote shows the uid of another for a while.
    Clones,
    /// Uploaded Secrets are lost, and looked at again and again.
    Secrets,
    /// Targets that were there before are taken only if they are equal.
    Equal,
    /// The sources are given nothing.
    Track,
}

const ALL: [(Feature, &str); 8] = [
    (Feature::Push, "push"),
    (Feature::Large, "large"),
    (Feature::Schemas, "schemas"),
    (Feature::Kinds, "kinds"),
    (Feature::Clones, "clones"),
    (Feature::Secrets, "secrets"),
    (Feature::Equal, "equal"),
    (Feature::Track, "track"),
];

/// The features of a run.
pub type Config = BTreeSet<Feature>;

/// About half of them, by the seed.
pub fn draw(seed: u64) -> Config {
    let mut random = Rng::with_seed(seed);
    let known = ALL.iter().map(|(feature, _)| *feature);
    known.filter(|_| random.bool()).collect()
}

/// As `named` reads it.
pub fn words(config: &Config) -> String {
    let named = ALL.iter().filter(|(feature, _)| config.contains(feature));
    named.map(|(_, word)| *word).collect::<Vec<_>>().join(",")
}

/// `push,large`, or `none`.
pub fn named(text: &str) -> Config {
    let words = text.split(',').filter(|word| !word.is_empty() && *word != "none");
    words.map(|word| word.parse().unwrap_or_else(|word| panic!("no feature {word:?}"))).collect()
}

impl FromStr for Feature {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = ALL.iter().find(|(_, word)| *word == text);
        found.map(|(feature, _)| *feature).ok_or_else(|| text.to_owned())
    }
}
