//! Keys of objects, pairs and kinds.

use std::{
    ops::{Index, IndexMut},
    sync::Arc,
};

use serde_json::Value;

/// `namespace/name`, or `/name` for a cluster-scoped kind.
pub(crate) type ObjectKey = Box<str>;

/// The key of an object.
pub(crate) fn of(namespace: &str, name: &str) -> ObjectKey {
    format!("{namespace}/{name}").into()
}

/// The namespace and the name in a key.
pub(crate) fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// The namespace and the name of an object, empty if it has none.
pub(crate) fn namespaced_name(object: &Value) -> (&str, &str) {
    let part = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    (part("namespace"), part("name"))
}

/// A pair of one remote.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pair {
    pub(crate) kind: KindIndex,
    /// Canonical namespace and name, as in an [`ObjectKey`]; shared by all maps that hold the pair.
    pub(crate) key: Arc<str>,
}

/// Position of a kind in `-resource`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KindIndex(usize);

/// One value for each kind of `-resource`, in that order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PerKind<T>(Vec<T>);

impl<T> PerKind<T> {
    /// The kinds with their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (KindIndex, &T)> {
        self.0.iter().enumerate().map(|(kind, value)| (KindIndex(kind), value))
    }

    /// The kinds.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = KindIndex> + use<T> {
        (0..self.0.len()).map(KindIndex)
    }

    /// Other values for the same kinds.
    pub(crate) fn map<U>(&self, of: impl FnMut(&T) -> U) -> PerKind<U> {
        PerKind(self.0.iter().map(of).collect())
    }
}

impl<T> From<Vec<T>> for PerKind<T> {
    fn from(values: Vec<T>) -> Self {
        Self(values)
    }
}

impl<T> Index<KindIndex> for PerKind<T> {
    type Output = T;

    fn index(&self, kind: KindIndex) -> &T {
        &self.0[kind.0]
    }
}

impl<T> IndexMut<KindIndex> for PerKind<T> {
    fn index_mut(&mut self, kind: KindIndex) -> &mut T {
        &mut self.0[kind.0]
    }
}

#[cfg(test)]
impl KindIndex {
    pub(crate) const FIRST: Self = Self(0);
}
