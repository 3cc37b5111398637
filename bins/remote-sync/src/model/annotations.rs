//! Annotations of sources, targets and their namespaces: the keys, under one prefix, and the formats of the values.

use std::fmt;

use serde_json::Value;

/// Replaces an unreadable uid, in records and marks.
pub(crate) const UNVERIFIED: &str = "unverified";

/// The keys; for sync-controller's, see its `controller/controller.go:76-89`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationKeys {
    prefix: String,
    /// On a source or target, set by a person: `true` stops all actions on the pair.
    pub paused: String,
    /// On an uploaded Secret: the hash of the uploaded content.
    pub hash: String,
    /// On a source: its generation that was copied to the target.
    pub remote_generation: String,
    /// On a source: the target's generation with that content.
    pub local_generation: String,
    /// On a source: the target's uid.
    pub local_uid: String,
    /// On a target: the object that it is a copy of. On its Namespace: the object that it was created for.
    pub source: String,
    /// On a target: the keys of the labels and annotations that came from the source.
    pub managed_keys: String,
}

impl AnnotationKeys {
    /// The keys under `prefix`, which has no trailing slash.
    pub fn new(prefix: &str) -> Self {
        let key = |name: &str| format!("{prefix}/{name}");
        Self {
            prefix: key(""),
            paused: key("paused"),
            hash: key("last-uploaded-hash"),
            remote_generation: key("sync-remote-generation"),
            local_generation: key("sync-local-generation"),
            local_uid: key("sync-local-uid"),
            source: key("source"),
            managed_keys: key("managed-keys"),
        }
    }

    /// What `-track source` records on a source.
    pub fn records(&self) -> [&String; 3] {
        [&self.remote_generation, &self.local_generation, &self.local_uid]
    }

    /// Returns whether a key is under the prefix, even if it is unknown.
    pub fn is_ours(&self, key: &str) -> bool {
        key.starts_with(&*self.prefix)
    }
}

/// The uid of an object; a cluster's is its Namespace kube-system's. Stores hold many: bytes need no alignment, unlike
/// a u128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid([u8; 16]);

impl Uid {
    /// Parses a uid, which API servers format as a UUID (apimachinery `pkg/util/uuid/uuid.go`); `None` for any other
    /// format.
    pub fn parse(text: &str) -> Option<Self> {
        let number = u128::from_str_radix(&text.replace('-', ""), 16).ok()?;
        Some(Self(number.to_be_bytes())).filter(|uid| uid.to_string() == text)
    }

    /// Parses the uid in an annotation or field, if any.
    pub fn of(value: &Value) -> Option<Self> {
        value.as_str().and_then(Self::parse)
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", u128::from_be_bytes(self.0));
        let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
        write!(f, "{a}-{b}-{c}-{d}-{e}")
    }
}

/// The name of a cluster in marks: `<remote>=<uid>`, or `<remote>=unverified`.
pub fn cluster_mark(remote: &str, uid: Option<Uid>) -> String {
    match uid {
        Some(uid) => format!("{remote}={uid}"),
        None => format!("{remote}={UNVERIFIED}"),
    }
}

/// The uid in a cluster's mark: `Some(None)` if unverified, `None` if invalid. Earlier versions wrote only the uid.
pub fn uid_of_mark(mark: &str) -> Option<Option<Uid>> {
    match mark.split_once('=').map_or(mark, |(_, uid)| uid) {
        UNVERIFIED if mark != UNVERIFIED => Some(None),
        uid => Uid::parse(uid).map(Some),
    }
}

/// A target's source, and the instance that copied it; an instance handles only its own copies. The format is
/// `<cluster>/<namespace>/<name>/<uid>/<generation>/<finalizer>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The source's cluster, see [`cluster_mark`].
    pub cluster: &'a str,
    /// Empty for a cluster-scoped kind.
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: Uid,
    /// The source's generation when its content was written.
    pub generation: u32,
    /// The finalizer of the instance that wrote the content.
    pub finalizer: &'a str,
}

impl<'a> Origin<'a> {
    /// Parses what [`Display`](fmt::Display) formats; `None` for anything else.
    pub fn parse(text: &'a str) -> Option<Self> {
        // The finalizer itself contains a slash.
        let mut parts = text.splitn(6, '/');
        let mut part = || parts.next();
        let (cluster, namespace, name) = (part()?, part()?, part()?);
        uid_of_mark(cluster)?;
        let (uid, generation) = (Uid::parse(part()?)?, part()?.parse().ok()?);
        Some(Self { cluster, namespace, name, uid, generation, finalizer: part()? })
    }
}

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, namespace, name, uid, generation, finalizer } = self;
        write!(f, "{cluster}/{namespace}/{name}/{uid}/{generation}/{finalizer}")
    }
}

/// The keys of a target's labels and annotations that came from its source: `label,label|annotation,…`. Keys contain
/// neither comma nor bar. Sorted for binary search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedKeys<'a> {
    pub labels: Vec<&'a str>,
    pub annotations: Vec<&'a str>,
}

impl<'a> ManagedKeys<'a> {
    pub fn parse(text: &'a str) -> Self {
        let (labels, annotations) = text.split_once('|').unwrap_or((text, ""));
        let keys = |text: &'a str| {
            let keys: Vec<_> = text.split(',').filter(|key| !key.is_empty()).collect();
            // Only a person writes unsorted keys: they are ignored.
            if keys.is_sorted() { keys } else { Vec::new() }
        };
        Self { labels: keys(labels), annotations: keys(annotations) }
    }
}

impl fmt::Display for ManagedKeys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}|{}", self.labels.join(","), self.annotations.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    #[test]
    fn uids_are_read_and_written_unchanged() {
        assert_eq!(Uid::parse(UID).unwrap().to_string(), UID);
        for bad in [
            "",
            "x",
            &UID[1..],
            &format!("{UID}0"),
            &UID.replace('-', "+"),
            "-----",
            &UID.to_uppercase(),
        ] {
            assert_eq!(Uid::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn origins_are_read_back_as_written() {
        let named = format!("west={UID}");
        let clusters = [&named, "west=unverified", UID];
        for (cluster, place) in clusters.into_iter().flat_map(|it| [(it, "ns/x"), (it, "/x")]) {
            let text = format!("{cluster}/{place}/{UID}/7/a.b/c");
            let origin = Origin::parse(&text).unwrap();
            assert_eq!((origin.to_string(), origin.generation), (text.clone(), 7));
            let bad = format!("x/{text}");
            for bad in [&bad, &text[..text.len() - 8], ""] {
                assert_eq!(Origin::parse(bad), None, "{bad}");
            }
        }
    }

    #[test]
    fn managed_keys_are_read_back_as_written() {
        for text in ["a,b/c|d", "|", "a|", "|d,e"] {
            assert_eq!(ManagedKeys::parse(text).to_string(), text);
        }
        assert_eq!(ManagedKeys::parse(""), ManagedKeys::default());
    }
}
