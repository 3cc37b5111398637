//! What programs did, by the audit logs of the real control plane, and what their manifests grant: each right is used,
//! and none is missing.

use std::{collections::BTreeSet, env, fs, path::PathBuf};

use serde_json::Value;

/// What a rule of a Role grants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub verb: String,
    pub group: String,
    pub resource: String,
    /// The object name that it is restricted to.
    pub name: Option<String>,
}

impl Right {
    /// Returns whether this request needed the right, and was authorized.
    fn is_used_by(&self, event: &Value) -> bool {
        let object = &event["objectRef"];
        // A 404 or 409 also proves the right.
        !matches!(code(event), 401 | 403)
            && event["verb"] == self.verb.as_str()
            && object["apiGroup"].as_str().unwrap_or_default() == self.group
            && resource(event) == self.resource
            && self.name.as_ref().is_none_or(|name| object["name"] == name.as_str())
    }
}

/// Returns everything that the Roles among these manifests grant.
#[track_caller]
pub fn granted(manifests: &[Value]) -> BTreeSet<Right> {
    let is_role = |manifest: &&Value| {
        manifest["kind"].as_str().is_some_and(|kind| ["Role", "ClusterRole"].contains(&kind))
    };
    let roles = manifests.iter().filter(is_role);
    let rules = roles.flat_map(|role| role["rules"].as_array().into_iter().flatten());
    let granted: BTreeSet<_> = rules.flat_map(rights).collect();
    assert!(!granted.is_empty(), "no rights in the manifests");
    granted
}

fn rights(rule: &Value) -> Vec<Right> {
    let names = match texts(&rule["resourceNames"]) {
        names if names.is_empty() => vec![None],
        names => names.into_iter().map(Some).collect(),
    };
    let mut rights = Vec::new();
    for verb in texts(&rule["verbs"]) {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let (verb, group) = (&verb, &group);
                rights.extend(names.iter().cloned().map(|name| Right {
                    verb: verb.clone(),
                    group: group.clone(),
                    resource: resource.clone(),
                    name,
                }));
            }
        }
    }
    rights
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Returns the requests to "hub" or "managed" for which `is_ours` is true; there must be some.
#[track_caller]
pub fn requests(cluster: &str, is_ours: impl Fn(&Value) -> bool) -> Vec<Value> {
    let requests = all_requests(cluster, is_ours);
    assert!(!requests.is_empty(), "the scenarios did not run against this control plane");
    requests
}

/// Returns the same, possibly none.
#[track_caller]
pub fn all_requests(cluster: &str, is_ours: impl Fn(&Value) -> bool) -> Vec<Value> {
    let directory = env::var("E2E_DIR").expect("testing/controlplane/run.sh sets E2E_DIR");
    let path = PathBuf::from(directory).join(cluster).join("audit.log");
    let log = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let events = log.lines().filter_map(|line| serde_json::from_str(line).ok());
    events.filter(is_ours).collect()
}

/// Fails the test if a granted right was never used.
#[track_caller]
pub fn assert_used(granted: &BTreeSet<Right>, requests: &[Value]) {
    let is_unused = |right: &&Right| !requests.iter().any(|event| right.is_used_by(event));
    let unused: Vec<_> = granted.iter().filter(is_unused).collect();
    println!("{} rights, {} requests", granted.len(), requests.len());
    assert!(unused.is_empty(), "granted and never used: {unused:#?}");
}

/// Fails the test if a request was forbidden, except in `revoked-*` namespaces, where tests revoke rights.
#[track_caller]
pub fn assert_none_is_missing(requests: &[Value]) {
    let refused: Vec<_> = requests
        .iter()
        .filter(|event| code(event) == 403)
        .filter(|event| !text(event, "/objectRef/namespace").starts_with("revoked-"))
        .map(|event| format!("{} {}", words(event), text(event, "/requestURI")))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

// --- properties of requests ---

pub fn user(event: &Value) -> &str {
    text(event, "/user/username")
}

pub fn is_in_group(event: &Value, group: &str) -> bool {
    texts(&event["user"]["groups"]).iter().any(|one| one == group)
}

/// Returns whether the request is from a service account of this name, in any namespace.
pub fn is_of_account(event: &Value, name: &str) -> bool {
    user(event)
        .strip_prefix("system:serviceaccount:")
        .is_some_and(|account| account.split_once(':').is_some_and(|(_, account)| account == name))
}

fn code(event: &Value) -> u64 {
    event["responseStatus"]["code"].as_u64().unwrap_or_default()
}

pub fn text<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns, for example, `update managedclusters/status`.
pub fn words(event: &Value) -> String {
    let what = match resource(event) {
        what if what.is_empty() => text(event, "/requestURI").to_owned(),
        what => what,
    };
    format!("{} {what}", text(event, "/verb"))
}

/// Returns the resource as in rules, for example `managedclusters/status`.
fn resource(event: &Value) -> String {
    let part = |name: &str| text(event, &format!("/objectRef/{name}"));
    match (part("resource"), part("subresource")) {
        (resource, "") => resource.to_owned(),
        (resource, sub) => format!("{resource}/{sub}"),
    }
}
