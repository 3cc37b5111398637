//! The keys by which objects, and pairs of them, are known.

use std::sync::Arc;

use serde_json::Value;

/// `namespace/name`, or `/name` for a kind that is in no namespace.
pub(crate) type ObjectKey = Box<str>;

/// The key of an object.
pub(crate) fn of(namespace: &str, name: &str) -> ObjectKey {
    format!("{namespace}/{name}").into()
}

/// Namespace and name of a key.
pub(crate) fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// Namespace and name of an object, empty where there is none.
pub(crate) fn namespaced_name(object: &Value) -> (&str, &str) {
    let part = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    (part("namespace"), part("name"))
}

/// A pair of one remote.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pair {
    /// Which of -resource it is.
    pub(crate) kind: usize,
    /// Canonical namespace and name, as in a [`ObjectKey`]; shared by all that is noted of it.
    pub(crate) key: Arc<str>,
}
