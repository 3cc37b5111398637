//! Keys of objects, pairs and kinds.

use std::sync::Arc;

use serde_json::Value;

/// `namespace/name`, or `/name` for a cluster-scoped kind.
pub(crate) type ObjectKey = Box<str>;

pub(crate) fn of(namespace: &str, name: &str) -> ObjectKey {
    format!("{namespace}/{name}").into()
}

pub(crate) fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// The namespace and the name of an object, empty if it has none.
pub(crate) fn namespaced_name(object: &Value) -> (&str, &str) {
    let part = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    (part("namespace"), part("name"))
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pair {
    pub(crate) kind: KindIndex,
    /// Canonical namespace and name, as in an [`ObjectKey`]; shared by all maps that hold the pair.
    pub(crate) key: Arc<str>,
}

/// Position of a kind in `-resource`.
pub(crate) type KindIndex = usize;
