//! Role-based access: what the stored Roles, ClusterRoles and their bindings grant, by the rules of
//! `plugin/pkg/auth/authorizer/rbac`. Everybody may also read discovery.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use serde_json::Value;

use crate::{cluster::Cluster, metadata::text, store::Key, target::Target, user::User};

const GROUP: &str = "rbac.authorization.k8s.io";

/// The attributes of an access request.
pub(crate) struct Access<'a> {
    pub(crate) verb: &'a str,
    pub(crate) target: &'a Target,
    /// The object's name; for a list or watch of one object, from its field selector.
    pub(crate) name: &'a str,
}

impl<'a> Access<'a> {
    pub(crate) fn new(target: &'a Target) -> Self {
        Self { verb: target.verb, target, name: target.any_name() }
    }
}

/// Returns whether a user has this access; always true if RBAC is not enforced.
pub(crate) fn allows(cluster: &Cluster, user: &User, access: &Access<'_>) -> bool {
    let is_discovery = access.target.resource.is_empty();
    if is_discovery || user.is_master() || !cluster.rbac.load(Relaxed) {
        return true;
    }
    let namespace = &access.target.namespace;
    bound(cluster, "clusterrolebindings", "", user, access)
        || !namespace.is_empty() && bound(cluster, "rolebindings", namespace, user, access)
}

/// Returns whether a binding of this kind grants the access.
fn bound(cluster: &Cluster, kind: &str, place: &str, user: &User, access: &Access<'_>) -> bool {
    let bindings = cluster.store.snapshot(&format!("{kind}.{GROUP}"), place).objects;
    bindings.iter().filter(|(key, binding)| names(binding, user, &key.namespace)).any(
        |(key, binding)| {
            let role = role(cluster, binding, &key.namespace).unwrap_or_default();
            list(&role["rules"]).any(|rule| grants(rule, access))
        },
    )
}

/// Returns whether a binding in this namespace has the user as a subject.
fn names(binding: &Value, user: &User, namespace: &str) -> bool {
    list(&binding["subjects"]).any(|subject| {
        let name = text(subject, "/name");
        match text(subject, "/kind") {
            "User" => user.name == name,
            "Group" => user.groups.iter().any(|group| group == name),
            "ServiceAccount" => {
                let own = text(subject, "/namespace");
                let place = if own.is_empty() { namespace } else { own };
                user.name == format!("system:serviceaccount:{place}:{name}")
            }
            _ => false,
        }
    })
}

fn role(cluster: &Cluster, binding: &Value, namespace: &str) -> Option<Arc<Value>> {
    let (plural, namespace) = match text(binding, "/roleRef/kind") {
        "Role" => ("roles", namespace),
        _ => ("clusterroles", ""),
    };
    cluster.store.get(&Key {
        resource: format!("{plural}.{GROUP}"),
        namespace: namespace.into(),
        name: text(binding, "/roleRef/name").into(),
    })
}

fn grants(rule: &Value, access: &Access<'_>) -> bool {
    let Target { group, resource, subresource, .. } = access.target;
    let has = |field: &str, wanted: &str| list(&rule[field]).any(|one| one == wanted || one == "*");
    let has_resource = match subresource.as_str() {
        "" => has("resources", resource),
        part => {
            has("resources", &format!("{resource}/{part}"))
                || list(&rule["resources"]).any(|one| *one == format!("*/{part}"))
        }
    };
    let mut named = list(&rule["resourceNames"]).peekable();
    has("verbs", access.verb)
        && has("apiGroups", group)
        && has_resource
        && (named.peek().is_none() || named.any(|name| name == access.name))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
