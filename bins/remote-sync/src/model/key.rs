//! Keys of objects and pairs, and the mapping of names between source and target, in both directions. A pair's
//! canonical names are the source's namespace and the target's name (sync-controller
//! `controller/controller.go:135-150`):
//!
//! | | namespace | name |
//! |---|---|---|
//! | source | namespace | name + resource suffix |
//! | target | namespace + namespace suffix | name |
//!
//! Cluster-scoped objects have an empty namespace, to which the namespace rules do not apply. A fixed target namespace
//! does not reveal the source's, so it requires a single source namespace.

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

/// Fails with a sentence if an object cannot have the key of the source or of the target.
pub(crate) fn check(source: &str, target: &str) -> Result<(), String> {
    for (side, key) in [("source", source), ("target", target)] {
        let (namespace, name) = split(key);
        if !namespace.is_empty() && !valid_label(namespace) || !valid_name(name) {
            return Err(format!("the {side} would be {key:?}, which is not a valid name"));
        }
    }
    Ok(())
}

/// The namespace and name of an object; missing ones are empty.
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

/// Index of a kind in `-resource`.
pub(crate) type KindIndex = usize;

/// Placeholder for the remote's name in suffixes.
pub(crate) const CLUSTER: &str = "{cluster}";

/// The name mapping: of the flags, with [`CLUSTER`] in suffixes, or of one remote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameMapping {
    /// The suffix of source names.
    pub(crate) resource_suffix: String,
    /// The suffix of target namespaces.
    pub(crate) namespace_suffix: String,
    /// The prefix of source namespaces, from which target namespaces derive.
    pub(crate) namespace_prefix: String,
    /// The only namespace of sources, if set.
    pub(crate) source_namespace: Option<String>,
    /// The only namespace of targets, if set; it replaces the suffix.
    pub(crate) target_namespace: Option<String>,
}

impl NameMapping {
    /// The part of the mapping that all remotes share.
    pub(crate) fn common(&self) -> Self {
        let varies = |suffix: &str| suffix.contains(CLUSTER);
        let mut common = self.with(|suffix| match varies(suffix) {
            true => String::new(),
            false => suffix.to_owned(),
        });
        // Without the suffix of a remote, only the beginning of the target namespace is known.
        if varies(&self.namespace_suffix)
            && let Some(only) = common.source_namespace.take()
        {
            common.namespace_prefix = only;
        }
        common
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

    /// The only namespace of objects in this role, if set.
    pub(crate) fn namespace(&self, role: Role) -> Option<&str> {
        match role {
            Role::Source => self.source_namespace.as_deref(),
            Role::Target => self.target_namespace.as_deref(),
        }
    }

    /// The canonical names of an object in this role; `None` if no such object can have this name. For a target's
    /// Secret, `name` is that of its controller.
    pub(crate) fn canonical<'a>(
        &'a self,
        role: Role,
        namespace: &'a str,
        name: &'a str,
    ) -> Option<(&'a str, &'a str)> {
        let (canonical, name) = match role {
            Role::Source => (namespace, name.strip_suffix(&*self.resource_suffix)?),
            Role::Target => (self.source_namespace_of(namespace)?, name),
        };
        self.has_sources(canonical).then_some((canonical, name))
    }

    fn source_namespace_of<'a>(&'a self, target: &'a str) -> Option<&'a str> {
        match &self.target_namespace {
            _ if target.is_empty() => Some(target),
            Some(only) => self.source_namespace.as_deref().filter(|_| only == target),
            None => target.strip_suffix(&*self.namespace_suffix),
        }
    }

    /// The pair of the object with this key in this role; `None` if it cannot belong to a pair.
    pub(crate) fn pair(&self, role: Role, kind: KindIndex, key: &str) -> Option<Pair> {
        let (namespace, name) = split(key);
        let (namespace, name) = self.canonical(role, namespace, name)?;
        Some(Pair { kind, key: of(namespace, name).into() })
    }

    /// The key of the source; `canonical` is that of the pair.
    pub(crate) fn source_key(&self, canonical: &str) -> ObjectKey {
        self.source_name(canonical).into()
    }

    pub(crate) fn target_key(&self, canonical: &str) -> ObjectKey {
        let (namespace, name) = split(canonical);
        of(&self.target_namespace(namespace), name)
    }

    /// The name of the source; also of the Secret that one of this name is uploaded to.
    pub(crate) fn source_name(&self, name: &str) -> String {
        format!("{name}{}", self.resource_suffix)
    }

    fn target_namespace(&self, namespace: &str) -> String {
        match &self.target_namespace {
            _ if namespace.is_empty() => String::new(),
            Some(only) => only.clone(),
            None => format!("{namespace}{}", self.namespace_suffix),
        }
    }

    /// Returns whether a source name can match both mappings.
    pub(crate) fn shares_sources(&self, other: &Self) -> bool {
        let (one, other) = (&*self.resource_suffix, &*other.resource_suffix);
        one.ends_with(other) || other.ends_with(one)
    }

    /// Returns whether this namespace may have sources.
    pub(crate) fn has_sources(&self, namespace: &str) -> bool {
        let is_in = |only: &String| only == namespace;
        namespace.is_empty()
            || namespace.starts_with(&*self.namespace_prefix)
                && self.source_namespace.as_ref().is_none_or(is_in)
    }
}

#[cfg(test)]
mod tests;
