//! Name mapping between source and target, in both directions. A pair's canonical names are the source's
//! namespace and the target's name (sync-controller `controller/controller.go:135-150`):
//!
//! | | namespace | name |
//! |---|---|---|
//! | source | namespace | name + resource suffix |
//! | target | namespace + namespace suffix | name |
//!
//! Cluster-scoped objects have an empty namespace, to which the namespace rules do not apply. With a
//! [`FixedNamespace`] the target's namespace no longer tells the source's; so there is only one of either.

use apiclient::resource::{valid_label, valid_name};

use crate::model::key::{self, ObjectKey};

/// Placeholder for the remote's name.
pub(crate) const CLUSTER: &str = "{cluster}";

/// The mapping rules as given by the flags, with placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MappingTemplate {
    /// Of the source's name; may contain [`CLUSTER`].
    pub(crate) resource_suffix: String,
    /// Of the target's namespace; may contain [`CLUSTER`].
    pub(crate) namespace_suffix: String,
    /// Of the namespaces on both sides.
    pub(crate) namespace_prefix: String,
    /// Instead of both rules for namespaces.
    pub(crate) fixed: Option<FixedNamespace>,
}

/// The one namespace of all sources, and that of all targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FixedNamespace {
    pub(crate) source: String,
    pub(crate) target: String,
}

impl MappingTemplate {
    /// The rules as far as all remotes have them in common.
    pub(crate) fn common(&self) -> NameMapping {
        let common = |suffix: &str| match suffix.contains(CLUSTER) {
            true => String::new(),
            false => suffix.to_owned(),
        };
        NameMapping {
            resource_suffix: common(&self.resource_suffix),
            namespace_suffix: common(&self.namespace_suffix),
            namespace_prefix: self.namespace_prefix.clone(),
            fixed: self.fixed.clone(),
        }
    }

    /// The rules for one remote.
    pub(crate) fn names(&self, remote: &str) -> NameMapping {
        NameMapping {
            resource_suffix: self.resource_suffix.replace(CLUSTER, remote),
            namespace_suffix: self.namespace_suffix.replace(CLUSTER, remote),
            namespace_prefix: self.namespace_prefix.clone(),
            fixed: self.fixed.clone(),
        }
    }
}

/// The rules for one remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameMapping {
    resource_suffix: String,
    namespace_suffix: String,
    namespace_prefix: String,
    fixed: Option<FixedNamespace>,
}

impl NameMapping {
    /// The canonical names of a source, if these can be the names of one.
    pub(crate) fn canonical_of_source<'a>(
        &self,
        namespace: &'a str,
        name: &'a str,
    ) -> Option<(&'a str, &'a str)> {
        let name = name.strip_suffix(&*self.resource_suffix)?;
        let elsewhere = |fixed: &FixedNamespace| !namespace.is_empty() && fixed.source != namespace;
        let covered = self.covers(namespace) && !self.fixed.as_ref().is_some_and(elsewhere);
        covered.then_some((namespace, name))
    }

    /// The canonical names of the source with this key, if it can be the key of one.
    pub(crate) fn canonical_of_source_key<'a>(&self, key: &'a str) -> Option<(&'a str, &'a str)> {
        let (namespace, name) = key::split(key);
        self.canonical_of_source(namespace, name)
    }

    /// The canonical names of a target, if these can be the names of one. Also for a target's Secret, with
    /// its controller's name.
    pub(crate) fn canonical_of_target<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> Option<(&'a str, &'a str)> {
        let canonical = match (namespace, &self.fixed) {
            ("", _) => namespace,
            (_, Some(fixed)) => {
                return (fixed.target == namespace).then_some((&fixed.source, name));
            }
            _ => namespace.strip_suffix(&*self.namespace_suffix)?,
        };
        self.covers(namespace).then_some((canonical, name))
    }

    /// Namespace and name of the source; also of the Secret that one of this name is uploaded to.
    pub(crate) fn source(&self, namespace: &str, name: &str) -> (String, String) {
        (namespace.to_owned(), format!("{name}{}", self.resource_suffix))
    }

    /// The key of the source.
    pub(crate) fn source_key(&self, namespace: &str, name: &str) -> ObjectKey {
        format!("{namespace}/{name}{}", self.resource_suffix).into()
    }

    /// Namespace and name of the target.
    pub(crate) fn target(&self, namespace: &str, name: &str) -> (String, String) {
        (self.target_namespace(namespace), name.to_owned())
    }

    /// The namespace of the target.
    pub(crate) fn target_namespace(&self, namespace: &str) -> String {
        match (namespace, &self.fixed) {
            ("", _) => String::new(),
            (_, Some(fixed)) => fixed.target.clone(),
            _ => format!("{namespace}{}", self.namespace_suffix),
        }
    }

    /// Checks that both names are valid.
    ///
    /// # Errors
    /// One sentence that quotes the invalid one.
    pub(crate) fn check(&self, namespace: &str, name: &str) -> Result<(), String> {
        let source = self.source(namespace, name);
        let target = self.target(namespace, name);
        for (side, (namespace, name)) in [("source", &source), ("target", &target)] {
            if !namespace.is_empty() && !valid_label(namespace) {
                return Err(format!(
                    "the {side}'s namespace would be {namespace:?}, which is not a valid namespace name"
                ));
            }
            if !valid_name(name) {
                return Err(format!(
                    "the {side} would be {name:?}, which is not a valid object name"
                ));
            }
        }
        Ok(())
    }

    /// Returns whether a source's name can match `other` as well.
    pub(crate) fn shares_sources(&self, other: &Self) -> bool {
        let (one, other) = (&*self.resource_suffix, &*other.resource_suffix);
        one.ends_with(other) || other.ends_with(one)
    }

    /// Returns whether this namespace can be a target's, or one that was created for a target.
    pub(crate) fn covers_target(&self, namespace: &str) -> bool {
        let is = |fixed: &FixedNamespace| fixed.target == namespace;
        self.fixed.as_ref().map_or_else(|| self.covers(namespace), is)
    }

    /// Returns whether this namespace, on either side, is within the prefix.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        namespace.is_empty() || namespace.starts_with(&*self.namespace_prefix)
    }
}

#[cfg(test)]
mod tests;
