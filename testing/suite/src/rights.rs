//! Rights that are taken away and given back, on either server.

use apiclient::resource::Resource;
use serde_json::{Value, json};

use crate::{cluster::Cluster, eventually, real};

static ROLES: Resource = Resource::v1("rbac.authorization.k8s.io", "roles", "Role");
static ROLE_BINDINGS: Resource =
    Resource::v1("rbac.authorization.k8s.io", "rolebindings", "RoleBinding");
static REVIEWS: Resource =
    Resource::v1("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview");

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
    let target = ROLES.object(namespace, role);
    let mut object = cluster.get(&target).expect("the Role");
    let rules = object["rules"].clone();
    let taken = taken(&rules, verb, plural);
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
    let subject = subject(cluster, namespace, role);
    eventually("the right is gone", || !is_allowed(cluster, namespace, &subject, &taken));
    Revoked { cluster, namespace, role, rule: 0, rules }
}

/// The first rule with this right, as the attributes of a review without a namespace.
fn taken(rules: &Value, verb: &str, plural: &str) -> Value {
    let has =
        |list: &Value, item: &str| list.as_array().is_some_and(|all| all.contains(&item.into()));
    let mut rules = rules.as_array().expect("rules").iter();
    let rule = rules.find(|rule| has(&rule["resources"], plural) && has(&rule["verbs"], verb));
    let rule = rule.expect("a rule with the right");
    json!({
        "verb": verb, "resource": plural,
        "group": rule["apiGroups"][0], "name": rule["resourceNames"][0],
    })
}

/// The user bound to the Role by the RoleBinding of the same name.
fn subject(cluster: &Cluster, namespace: &str, role: &str) -> String {
    let binding = cluster.get(&ROLE_BINDINGS.object(namespace, role)).expect("the RoleBinding");
    let subject = &binding["subjects"][0];
    let text = |field: &str| subject[field].as_str().unwrap_or_default();
    match text("kind") {
        "ServiceAccount" => format!("system:serviceaccount:{}:{}", text("namespace"), text("name")),
        _ => text("name").to_owned(),
    }
}

fn is_allowed(cluster: &Cluster, namespace: &str, user: &str, right: &Value) -> bool {
    let mut attributes = right.clone();
    attributes["namespace"] = namespace.into();
    let review = json!({
        "apiVersion": REVIEWS.api_version(), "kind": REVIEWS.kind,
        "spec": {"user": user, "resourceAttributes": attributes},
    });
    let review = cluster.client.create(&REVIEWS.everywhere(), &review).expect("a review");
    review["status"]["allowed"] == true
}

impl Revoked<'_> {
    /// Gives it back.
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
