//! What the audit logs of a whole run of the scenarios on the real control plane say about the rights in
//! the manifests: each is used, and none is missing.
//!
//! `SUITE=real testing/controlplane/run.sh sh -c 'cargo test -p suite --test addon_lease_controller -- --skip faults:: &&
//! cargo test -p suite --test addon_lease_controller -- --ignored'`

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::Value;
use suite::scene::{ADDON, manifests};

/// Verb, group, resource, and the name it is restricted to.
type Right = (String, String, String, Option<String>);

const GROUP: &str = "system:open-cluster-management:cluster:cluster1:addon:my-addon";

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// All that the Roles of manifests/addon-lease-controller/PART grant.
fn granted(part: &str) -> BTreeSet<Right> {
    let roles = manifests(part).into_iter().filter(|manifest| manifest["kind"] == "Role");
    let rules: Vec<Value> =
        roles.flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default()).collect();
    let mut rights = BTreeSet::new();
    for rule in &rules {
        let names = match texts(&rule["resourceNames"]) {
            names if names.is_empty() => vec![None],
            names => names.into_iter().map(Some).collect(),
        };
        for verb in texts(&rule["verbs"]) {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for name in &names {
                        rights.insert((
                            verb.clone(),
                            group.clone(),
                            resource.clone(),
                            name.clone(),
                        ));
                    }
                }
            }
        }
    }
    assert!(!rights.is_empty(), "no rights in manifests/addon-lease-controller/{part}");
    rights
}

/// The requests of the sidecar on "hub" or "managed".
fn requests(cluster: &str) -> Vec<Value> {
    let directory = std::env::var("E2E_DIR").expect("testing/controlplane/run.sh sets E2E_DIR");
    let path = PathBuf::from(directory).join(cluster).join("audit.log");
    let log = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let events = log.lines().filter_map(|line| serde_json::from_str(line).ok());
    let requests: Vec<Value> = events.filter(is_the_sidecars).collect();
    assert!(!requests.is_empty(), "the scenarios did not run against this control plane");
    requests
}

fn is_the_sidecars(event: &Value) -> bool {
    let user = event["user"]["username"].as_str().unwrap_or_default();
    let account =
        user.starts_with("system:serviceaccount:") && user.ends_with(&format!(":{ADDON}"));
    account || texts(&event["user"]["groups"]).iter().any(|group| group == GROUP)
}

fn code(event: &Value) -> u64 {
    event["responseStatus"]["code"].as_u64().unwrap_or_default()
}

fn uses(event: &Value, (verb, group, resource, name): &Right) -> bool {
    let object = &event["objectRef"];
    // A 404 or 409 too is told only to those who have the right.
    !matches!(code(event), 401 | 403)
        && event["verb"] == verb.as_str()
        && object["apiGroup"].as_str().unwrap_or_default() == group
        && object["resource"] == resource.as_str()
        && name.as_ref().is_none_or(|name| object["name"] == name.as_str())
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn every_granted_right_is_used() {
    for part in ["hub", "managed"] {
        let requests = requests(part);
        let granted = granted(part);
        let unused: Vec<&Right> = granted
            .iter()
            .filter(|right| !requests.iter().any(|event| uses(event, right)))
            .collect();
        println!("{part}: {} rights, {} requests", granted.len(), requests.len());
        assert!(unused.is_empty(), "{part}: granted and never used: {unused:#?}");
    }
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn no_right_is_missing_but_where_it_was_taken_away() {
    for part in ["hub", "managed"] {
        let refused: Vec<String> = requests(part)
            .iter()
            .filter(|event| code(event) == 403)
            .filter(|event| {
                let namespace = event["objectRef"]["namespace"].as_str().unwrap_or_default();
                !namespace.starts_with("revoked-")
            })
            .map(|event| format!("{} {}", event["verb"], event["requestURI"]))
            .collect();
        assert!(refused.is_empty(), "{part}: {refused:#?}");
    }
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn the_sidecar_never_deletes_anything() {
    for part in ["hub", "managed"] {
        let verbs: BTreeSet<String> =
            requests(part).iter().filter_map(|e| Some(e["verb"].as_str()?.to_owned())).collect();
        let allowed = ["create", "get", "list", "update", "watch"];
        assert!(verbs.iter().all(|verb| allowed.contains(&verb.as_str())), "{part}: {verbs:?}");
    }
}
