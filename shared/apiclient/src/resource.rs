//! Resources, and the objects and collections that requests are about: their paths and names.

use std::{borrow::Cow, fmt};

/// A resource that the API server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    /// The name in paths: plural, in lower case.
    pub plural: Cow<'static, str>,
    pub kind: Cow<'static, str>,
}

pub static CONFIGMAPS: Resource = Resource::v1("", "configmaps", "ConfigMap");
pub static CUSTOM_RESOURCE_DEFINITIONS: Resource =
    Resource::v1("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition");
pub static LEASES: Resource = Resource::v1("coordination.k8s.io", "leases", "Lease");
pub static NAMESPACES: Resource = Resource::v1("", "namespaces", "Namespace");
pub static PODS: Resource = Resource::v1("", "pods", "Pod");
pub static SECRETS: Resource = Resource::v1("", "secrets", "Secret");

impl Resource {
    pub const fn v1(group: &'static str, plural: &'static str, kind: &'static str) -> Self {
        Self::new(group, "v1", plural, kind)
    }

    pub const fn new(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            kind: Cow::Borrowed(kind),
        }
    }

    /// `v1` or `group/version`, as in objects.
    pub fn api_version(&self) -> String {
        match &*self.group {
            "" => self.version.to_string(),
            group => format!("{group}/{}", self.version),
        }
    }

    pub fn object<'a>(&'a self, namespace: &'a str, name: &'a str) -> Target<'a> {
        Target { resource: self, namespace: Some(namespace), name: Some(name), subresource: None }
    }

    /// An object of any scope: an empty `namespace` means cluster-scoped.
    pub fn object_in<'a>(&'a self, namespace: &'a str, name: &'a str) -> Target<'a> {
        match namespace {
            "" => self.cluster_object(name),
            namespace => self.object(namespace, name),
        }
    }

    /// A cluster-scoped object; in a list or watch, the objects with this name in all namespaces.
    pub fn cluster_object<'a>(&'a self, name: &'a str) -> Target<'a> {
        Target { resource: self, namespace: None, name: Some(name), subresource: None }
    }

    /// All objects, in all namespaces or cluster-scoped.
    pub fn everywhere(&self) -> Target<'_> {
        Target { resource: self, namespace: None, name: None, subresource: None }
    }

    pub fn collection<'a>(&'a self, namespace: &'a str) -> Target<'a> {
        Target { resource: self, namespace: Some(namespace), name: None, subresource: None }
    }
}

/// `leases.coordination.k8s.io`, as kubectl takes it.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.group {
            "" => f.write_str(&self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

/// The object or collection that a request is about.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub resource: &'a Resource,
    /// `None` for cluster-scoped kinds and for all namespaces.
    pub namespace: Option<&'a str>,
    /// `None` for a collection.
    pub name: Option<&'a str>,
    /// `status`, `approval`, …
    pub subresource: Option<&'a str>,
}

/// The path of a version; the name of the core group is empty.
pub(crate) fn version_path(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    }
}

impl<'a> Target<'a> {
    pub fn path(&self) -> String {
        let root = version_path(&self.resource.group, &self.resource.version);
        let mut parts = vec![&*root];
        parts.extend(self.namespace.iter().flat_map(|namespace| ["namespaces", namespace]));
        parts.push(&self.resource.plural);
        parts.extend([self.name, self.subresource].into_iter().flatten());
        parts.join("/")
    }

    pub fn status(&self) -> Self {
        Self { subresource: Some("status"), ..*self }
    }

    pub fn siblings(&self) -> Self {
        Self { name: None, subresource: None, ..*self }
    }
}

/// `leases cluster1/my-addon`
impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource.plural)?;
        match (self.namespace, self.name) {
            (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}")?,
            (Some(namespace), None) => write!(f, " in {namespace}")?,
            (None, Some(name)) => write!(f, " {name}")?,
            (None, None) => {}
        }
        match self.subresource {
            Some(subresource) => write!(f, " ({subresource})"),
            None => Ok(()),
        }
    }
}

/// Returns whether `name` can be the name of an object: a DNS-1123 subdomain (apimachinery
/// `util/validation/validation.go`), so that it cannot change the path of a request.
pub fn valid_name(name: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label = |label: &str| {
        label.starts_with(alphanumeric)
            && label.ends_with(alphanumeric)
            && label.chars().all(|c| alphanumeric(c) || c == '-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// Returns whether `name` can be the name of a namespace: a DNS-1123 label.
pub fn valid_label(name: &str) -> bool {
    name.len() <= 63 && !name.contains('.') && valid_name(name)
}

/// Returns whether `key` can be the key of a label or annotation, or the name of a finalizer: a name of up to 63
/// characters, after an optional DNS subdomain with a slash (apimachinery `util/validation/validation.go`,
/// IsQualifiedName).
pub fn valid_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(a, b)| (Some(a), b));
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let outer = |c: char| c.is_ascii_alphanumeric();
    prefix.is_none_or(valid_name)
        && (1..=63).contains(&name.len())
        && name.chars().all(inner)
        && name.starts_with(outer)
        && name.ends_with(outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_the_servers() {
        assert_eq!(SECRETS.object("ns", "x").path(), "/api/v1/namespaces/ns/secrets/x");
        let lease = LEASES.object("ns", "x");
        assert_eq!(lease.path(), "/apis/coordination.k8s.io/v1/namespaces/ns/leases/x");
        assert_eq!(lease.siblings().path(), "/apis/coordination.k8s.io/v1/namespaces/ns/leases");
        assert_eq!(SECRETS.everywhere().path(), "/api/v1/secrets");
        assert_eq!(SECRETS.cluster_object("x").siblings().path(), "/api/v1/secrets");
        let status = Target { subresource: Some("status"), ..PODS.object("ns", "x") };
        assert_eq!(status.path(), "/api/v1/namespaces/ns/pods/x/status");
        assert_eq!(status.to_string(), "pods ns/x (status)");
        assert_eq!(LEASES.to_string(), "leases.coordination.k8s.io");
        assert_eq!(SECRETS.to_string(), "secrets");
    }

    #[test]
    fn keys_are_those_of_labels() {
        for good in ["a", "example.com/Sync_local.1", "a.b/c", &"k".repeat(63)] {
            assert!(valid_key(good), "{good}");
        }
        for bad in ["", "/", "a/", "/a", "A.b/c", "a/b/c", "-a", "a/b-", "a b", &"k".repeat(64)] {
            assert!(!valid_key(bad), "{bad}");
        }
    }

    #[test]
    fn names_cannot_leave_their_place_in_a_path() {
        for good in ["a", "my-addon", "a.b-c.d", "0"] {
            assert!(valid_name(good), "{good}");
        }
        for bad in
            ["", "../secrets", "a/b", "A", "-a", "a-", "a..b", "a?b", "a b", &"a".repeat(254)]
        {
            assert!(!valid_name(bad), "{bad}");
        }
        assert!(valid_label("cluster-1") && !valid_label("a.b") && !valid_label(&"a".repeat(64)));
    }
}
