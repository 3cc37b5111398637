//! The features of a run: drawn from the seed, or named.

use std::{collections::BTreeSet, str::FromStr};

use fastrand::Rng;

/// An optional feature of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// The local cluster owns the specs.
    Push,
    /// Contents of hundreds of KiB.
    Large,
    /// The targets' servers start to drop a field, and to keep it again.
    Schemas,
    /// A kind is removed from the sources' cluster with all its objects, and reinstalled.
    Kinds,
    /// A remote shows another remote's uid for a while.
    Clones,
    /// Uploaded Secrets are lost, and all pairs are resynced every second.
    Secrets,
    /// Existing targets are adopted only if they are equal.
    Equal,
    /// The program writes no bookkeeping to sources (`-track target`).
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

/// Draws about half of the features from the seed.
pub fn draw(seed: u64) -> Config {
    let mut random = Rng::with_seed(seed);
    let known = ALL.iter().map(|(feature, _)| *feature);
    known.filter(|_| random.bool()).collect()
}

/// Returns the features in the format of `named`.
pub fn words(config: &Config) -> String {
    let named = ALL.iter().filter(|(feature, _)| config.contains(feature));
    named.map(|(_, word)| *word).collect::<Vec<_>>().join(",")
}

/// Parses `push,large`, or `none`.
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
