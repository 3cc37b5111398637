//! Rights that are taken away and given back, on either server.

use serde_json::Value;

use crate::{
    cluster::{Cluster, resource},
    pause, real,
};

/// A right that a program has lost for now.
pub struct Revoked<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    role: &'a str,
    rule: u64,
    rules: Value,
}

/// Takes a right away: on the embedded server by a fault, on the real one from the Role. Only in
/// namespaces that begin with `revoked-`, where [`audit`](crate::audit) expects a 403.
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
    let roles = resource("rbac.authorization.k8s.io", "roles", "Role");
    let target = roles.object(namespace, role);
    let mut object = cluster.get(&target).expect("the Role");
    let rules = object["rules"].clone();
    for rule in object["rules"].as_array_mut().expect("rules") {
        let named = rule["resources"].as_array().is_some_and(|all| all.contains(&plural.into()));
        if let Some(verbs) = rule["verbs"].as_array_mut().filter(|_| named) {
            verbs.retain(|one| one != verb);
        }
    }
    let all = object["rules"].as_array_mut().expect("rules");
    all.retain(|rule| rule["verbs"].as_array().is_some_and(|verbs| !verbs.is_empty()));
    cluster.client.replace(&target, &object).expect("the Role is replaced");
    // The authorizer has a watch of its own, which may lag behind.
    pause(500);
    Revoked { cluster, namespace, role, rule: 0, rules }
}

impl Revoked<'_> {
    /// Gives it back.
    pub fn grant(self) {
        if !real() {
            self.cluster.faults().remove(self.rule);
            return;
        }
        let roles = resource("rbac.authorization.k8s.io", "roles", "Role");
        let target = roles.object(self.namespace, self.role);
        let mut role = self.cluster.get(&target).expect("the Role");
        role["rules"] = self.rules;
        self.cluster.client.replace(&target, &role).expect("the Role is replaced");
    }
}
