//! The program's rights on servers that enforce them: what `-print-rbac` prints for its flags, and no more.

use std::process::Command;

use apiclient::error::Error;
use serde_json::{Value, json};

use super::{ACCOUNT, Kind, Place, Side, Stage, kinds::plain};
use crate::{outputs, sidecar::bare};

const GROUP: &str = "rbac.authorization.k8s.io";

static CLUSTER_ROLES: Kind = plain(GROUP, "clusterroles", "ClusterRole", false);
static CLUSTER_BINDINGS: Kind = plain(GROUP, "clusterrolebindings", "ClusterRoleBinding", false);
static ROLES: Kind = plain(GROUP, "roles", "Role", true);
static BINDINGS: Kind = plain(GROUP, "rolebindings", "RoleBinding", true);

/// Returns the binding that grants the program's account its rights on this cluster, and its place.
pub(super) fn binding(side: &Side) -> (Place, Value) {
    let name = format!("{}-{ACCOUNT}", side.home);
    let body = bound(side, "ClusterRole", &name);
    (Place::new(&side.cluster, &CLUSTER_BINDINGS, "", &name), body)
}

fn bound(side: &Side, kind: &str, role: &str) -> Value {
    json!({
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": side.home}],
    })
}

/// Grants what this command line needs, replacing earlier rights.
pub(super) fn grant(stage: &Stage, command: &Command) {
    for role in printed(command) {
        let name = role["metadata"]["name"].as_str().expect("a name");
        let (remote, own) = match name.strip_prefix("remote-sync") {
            Some("") => (false, true),
            Some("-source") => (!stage.setting.push, stage.setting.push),
            _ => (stage.setting.push, !stage.setting.push),
        };
        let remotes = stage.remotes.iter().filter(|_| remote);
        for side in remotes.chain(Some(&stage.own).filter(|_| own)) {
            let rules = json!({"rules": role["rules"]});
            match role["metadata"]["namespace"].as_str() {
                Some(namespace) => grant_in(side, name, namespace, &rules),
                None => grant_all(side, &rules),
            }
        }
    }
}

/// Returns the roles for these flags; none if the program rejects them.
fn printed(command: &Command) -> Vec<Value> {
    let mut print = bare(command.get_program().as_ref());
    let mut words = command.get_args();
    while let Some(word) = words.next() {
        match word.to_str() {
            // `-print-rbac` excludes these.
            Some("-once" | "-cleanup") => {}
            Some("-wait-timeout") => {
                words.next();
            }
            Some("-explain") => {
                words.nth(1);
            }
            _ => {
                print.arg(word);
            }
        }
    }
    let output = outputs::run(print.arg("-print-rbac"));
    let text = String::from_utf8_lossy(&output.stdout);
    let documents = text.split("\n---\n").filter(|text| !text.trim().is_empty());
    documents.map(|text| serde_yaml::from_str(text).expect("YAML")).collect()
}

fn grant_all(side: &Side, rules: &Value) {
    let (binding, body) = binding(side);
    put(&Place::new(&side.cluster, &CLUSTER_ROLES, "", &binding.name), rules);
    put(&binding, &body);
}

fn grant_in(side: &Side, role: &str, namespace: &str, rules: &Value) {
    let name = format!("{}-{role}", side.home);
    put(&Place::new(&side.cluster, &ROLES, namespace, &name), rules);
    let binding = Place::new(&side.cluster, &BINDINGS, namespace, &name);
    put(&binding, &bound(side, "Role", &name));
}

/// Creates an object, or merges these fields into it.
fn put(place: &Place, body: &Value) {
    let mut object = body.clone();
    object["apiVersion"] = json!(place.kind.resource.api_version());
    object["kind"] = json!(place.kind.resource.kind);
    object["metadata"] = json!({"name": place.name});
    match place.cluster.client.create(&place.target().siblings(), &object) {
        Ok(_) => {}
        Err(Error::AlreadyExists(_)) => drop(place.merge(body)),
        Err(error) => panic!("{error}"),
    }
}
