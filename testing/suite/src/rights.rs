//! Rights: what a user may do, and how a test revokes a right and restores it, on either server.

use std::slice;

use apiclient::resource::Resource;
use serde_json::{Value, json};

use crate::{
    audit::{Right, granted},
    cluster::Cluster,
    eventually, real,
};

static ROLES: Resource = Resource::v1("rbac.authorization.k8s.io", "roles", "Role");
static ROLE_BINDINGS: Resource =
    Resource::v1("rbac.authorization.k8s.io", "rolebindings", "RoleBinding");
static REVIEWS: Resource =
    Resource::v1("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview");

/// A temporarily revoked right of a program.
pub struct Revoked<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    role: &'a str,
    rule: u64,
    rules: Value,
}

/// Revokes a right: on the embedded server by a fault, on the real one from the Role. Only in namespaces that begin
/// with `revoked-`, where [`audit`](crate::audit) expects a 403.
pub fn revoke<'a>(
    cluster: &'a Cluster,
    namespace: &'a str,
    role: &'a str,
    verb: &str,
    plural: &str,
) -> Revoked<'a> {
    assert!(namespace.starts_with("revoked-"));
    if !real() {
        let rule = cluster.faults().deny(verb, plural, namespace);
        return Revoked { cluster, namespace, role, rule, rules: Value::Null };
    }
    let target = ROLES.object(namespace, role);
    let mut object = cluster.get(&target).expect("the Role");
    let rules = object["rules"].clone();
    let mut taken = granted(slice::from_ref(&object));
    taken.retain(|right| right.verb == verb && right.resource == plural);
    assert!(!taken.is_empty(), "the Role {role} does not grant {verb} {plural}");
    for rule in object["rules"].as_array_mut().expect("rules") {
        let named = rule["resources"].as_array().is_some_and(|all| all.contains(&plural.into()));
        if let Some(verbs) = rule["verbs"].as_array_mut().filter(|_| named) {
            verbs.retain(|one| one != verb);
        }
    }
    let all = object["rules"].as_array_mut().expect("rules");
    all.retain(|rule| rule["verbs"].as_array().is_some_and(|verbs| !verbs.is_empty()));
    cluster.client.replace(&target, &object).expect("the Role is replaced");
    // The authorizer has its own watch, which may lag behind.
    let subject = subject(cluster, namespace, role);
    eventually("the right is gone", || {
        taken.iter().all(|right| !may(cluster, &subject, namespace, right))
    });
    Revoked { cluster, namespace, role, rule: 0, rules }
}

/// Returns the user that the RoleBinding of the same name binds to the Role.
fn subject(cluster: &Cluster, namespace: &str, role: &str) -> String {
    let binding = cluster.get(&ROLE_BINDINGS.object(namespace, role)).expect("the RoleBinding");
    let subject = &binding["subjects"][0];
    let text = |field: &str| subject[field].as_str().unwrap_or_default();
    match text("kind") {
        "ServiceAccount" => format!("system:serviceaccount:{}:{}", text("namespace"), text("name")),
        _ => text("name").to_owned(),
    }
}

/// Returns whether the user has this right, in any namespace if none is given.
pub fn may(cluster: &Cluster, user: &str, namespace: &str, right: &Right) -> bool {
    let (resource, subresource) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
    let attributes = json!({
        "namespace": namespace, "verb": right.verb, "group": right.group, "version": "*",
        "resource": resource, "subresource": subresource, "name": right.name,
    });
    let review = json!({
        "apiVersion": REVIEWS.api_version(), "kind": REVIEWS.kind,
        "spec": {"user": user, "resourceAttributes": attributes},
    });
    cluster.create(&REVIEWS.everywhere(), &review)["status"]["allowed"] == true
}

impl Revoked<'_> {
    /// Restores the right.
    pub fn grant(self) {
        if !real() {
            self.cluster.faults().remove(self.rule);
            return;
        }
        let target = ROLES.object(self.namespace, self.role);
        let mut role = self.cluster.get(&target).expect("the Role");
        role["rules"] = self.rules;
        self.cluster.client.replace(&target, &role).expect("the Role is replaced");
    }
}
