//! Keys of objects and pairs, and the mapping of names between source and target, in both directions. A pair's
//! canonical names are the source's namespace and the target's name (sync-controller
//! `controller/controller.go:135-150`):
//!
//! | | namespace | name |
//! |---|---|---|
//! | source | namespace | name + resource suffix |
//! | target | namespace + namespace suffix | name |
//!
//! Cluster-scoped objects have an empty namespace, to which the namespace rules do not apply. A target namespace hides
//! the source's, so it requires a single source namespace.

use std::sync::Arc;

use apiclient::resource::{valid_label, valid_name};
use serde_json::Value;

use crate::model::object::Role;

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

/// Placeholder for the remote's name.
pub(crate) const CLUSTER: &str = "{cluster}";

/// The mapping rules: of the flags with [`CLUSTER`] in suffixes, or of one remote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameMapping {
    /// Of the source's name.
    pub(crate) resource_suffix: String,
    /// Of the target's namespace.
    pub(crate) namespace_suffix: String,
    /// Of the namespaces on both sides.
    pub(crate) namespace_prefix: String,
    /// The only namespace of sources, if there is one.
    pub(crate) source_namespace: Option<String>,
    /// The only namespace of targets, instead of the suffix.
    pub(crate) target_namespace: Option<String>,
}

impl NameMapping {
    /// The rules as far as all remotes have them in common.
    pub(crate) fn common(&self) -> Self {
        self.with(|suffix| match suffix.contains(CLUSTER) {
            true => String::new(),
            false => suffix.to_owned(),
        })
    }

    pub(crate) fn names(&self, remote: &str) -> Self {
        self.with(|suffix| suffix.replace(CLUSTER, remote))
    }

    fn with(&self, suffix: impl Fn(&str) -> String) -> Self {
        Self {
            resource_suffix: suffix(&self.resource_suffix),
            namespace_suffix: suffix(&self.namespace_suffix),
            ..self.clone()
        }
    }

    /// The only namespace of objects in this role, if there is one.
    pub(crate) fn namespace(&self, role: Role) -> Option<&str> {
        match role {
            Role::Source => self.source_namespace.as_deref(),
            Role::Target => self.target_namespace.as_deref(),
        }
    }

    /// The canonical names of an object in this role, if these can be the names of one. Also for a target's Secret,
    /// with its controller's name.
    pub(crate) fn canonical<'a>(
        &'a self,
        role: Role,
        namespace: &'a str,
        name: &'a str,
    ) -> Option<(&'a str, &'a str)> {
        match role {
            Role::Source => self.canonical_of_source(namespace, name),
            Role::Target => self.canonical_of_target(namespace, name),
        }
    }

    /// The canonical names of a source, if these can be the names of one.
    pub(crate) fn canonical_of_source<'a>(
        &self,
        namespace: &'a str,
        name: &'a str,
    ) -> Option<(&'a str, &'a str)> {
        let name = name.strip_suffix(&*self.resource_suffix)?;
        (self.covers(namespace) && self.has_sources(namespace)).then_some((namespace, name))
    }

    /// The canonical names of the source with this key, if it can be the key of one.
    pub(crate) fn canonical_of_source_key<'a>(&self, key: &'a str) -> Option<(&'a str, &'a str)> {
        let (namespace, name) = split(key);
        self.canonical_of_source(namespace, name)
    }

    /// The canonical names of a target, if these can be the names of one. Also for a target's Secret, with
    /// its controller's name.
    pub(crate) fn canonical_of_target<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> Option<(&'a str, &'a str)> {
        let canonical = match (namespace, &self.target_namespace) {
            ("", _) => namespace,
            (_, Some(target)) => {
                let source = self.source_namespace.as_deref().filter(|_| target == namespace)?;
                return Some((source, name));
            }
            _ => namespace.strip_suffix(&*self.namespace_suffix)?,
        };
        (self.covers(namespace) && self.has_sources(canonical)).then_some((canonical, name))
    }

    /// Namespace and name of the source; also of the Secret that one of this name is uploaded to.
    pub(crate) fn source(&self, namespace: &str, name: &str) -> (String, String) {
        (namespace.to_owned(), format!("{name}{}", self.resource_suffix))
    }

    pub(crate) fn target(&self, namespace: &str, name: &str) -> (String, String) {
        (self.target_namespace(namespace), name.to_owned())
    }

    pub(crate) fn target_namespace(&self, namespace: &str) -> String {
        match (namespace, &self.target_namespace) {
            ("", _) => String::new(),
            (_, Some(target)) => target.clone(),
            _ => format!("{namespace}{}", self.namespace_suffix),
        }
    }

    pub(crate) fn check(&self, namespace: &str, name: &str) -> Result<(), String> {
        let source = self.source(namespace, name);
        let target = self.target(namespace, name);
        for (side, (namespace, name)) in [("source", &source), ("target", &target)] {
            if !namespace.is_empty() && !valid_label(namespace) || !valid_name(name) {
                let place = of(namespace, name);
                return Err(format!("the {side} would be {place:?}, which is not a valid name"));
            }
        }
        Ok(())
    }

    /// Returns whether a source's name can match `other` as well.
    pub(crate) fn shares_sources(&self, other: &Self) -> bool {
        let (one, other) = (&*self.resource_suffix, &*other.resource_suffix);
        one.ends_with(other) || other.ends_with(one)
    }

    fn has_sources(&self, namespace: &str) -> bool {
        namespace.is_empty() || self.source_namespace.as_ref().is_none_or(|only| only == namespace)
    }

    /// Returns whether this namespace, on either side, is within the prefix.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        namespace.is_empty() || namespace.starts_with(&*self.namespace_prefix)
    }
}

#[cfg(test)]
mod tests;
