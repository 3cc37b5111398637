//! What the audit logs of a whole run on the real control plane say of csr-bootstrapper's rights: each is
//! used and none is missing, and on the hub it does nothing but what it has to.
//!
//! `SUITE=real testing/controlplane/run.sh sh -c 'cargo test -p suite --test csr_bootstrapper; cargo test
//! -p suite --test csr_bootstrapper -- --ignored'`

use std::{collections::BTreeSet, env, fs, path::PathBuf, time::Instant};

use serde_json::Value;
use suite::{
    ocm::{HEARTBEAT, PREFIX},
    pause,
    spoke::rights,
};

use crate::support::{SYNCED, beats_again};

/// Verb, group, resource, and the name it is restricted to.
type Right = (String, String, String, Option<String>);

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// All that the Role of manifests/csr-bootstrapper grants.
fn granted() -> BTreeSet<Right> {
    let mut granted = BTreeSet::new();
    let rules = rights().into_iter().filter(|manifest| manifest["kind"] == "Role");
    for rule in rules.flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default()) {
        let names = match texts(&rule["resourceNames"]) {
            names if names.is_empty() => vec![None],
            names => names.into_iter().map(Some).collect(),
        };
        for verb in texts(&rule["verbs"]) {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    let right = |name: &Option<String>| {
                        (verb.clone(), group.clone(), resource.clone(), name.clone())
                    };
                    granted.extend(names.iter().map(right));
                }
            }
        }
    }
    assert!(!granted.is_empty(), "no rights in manifests/csr-bootstrapper");
    granted
}

/// The requests on "hub" or "managed" of those of whom `is_ours` is true, by user name and groups.
fn requests(cluster: &str, is_ours: impl Fn(&str, &[String]) -> bool) -> Vec<Value> {
    let directory = env::var("E2E_DIR").expect("testing/controlplane/run.sh sets E2E_DIR");
    let path = PathBuf::from(directory).join(cluster).join("audit.log");
    let log = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let requests = events.filter(|event| {
        let user = event["user"]["username"].as_str().unwrap_or_default();
        is_ours(user, &texts(&event["user"]["groups"]))
    });
    // The Go agent's are no business of ours; nor those of tests that play an agent by hand.
    let requests: Vec<Value> = requests
        .filter(|event| {
            event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("csr-bootstrapper/"))
        })
        .collect();
    assert!(!requests.is_empty(), "the scenarios did not run against this control plane");
    requests
}

fn on_managed() -> Vec<Value> {
    let account = rights()[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    let suffix = format!(":{account}");
    requests("managed", |user, _| {
        user.starts_with("system:serviceaccount:") && user.ends_with(&suffix)
    })
}

/// With a certificate, or with a bootstrap identity.
fn on_hub(certificate: bool) -> Vec<Value> {
    requests("hub", |user, groups| {
        let agent = groups.iter().any(|group| *group == format!("{PREFIX}managed-clusters"));
        let bootstrap = user.starts_with("system:serviceaccount:open-cluster-management:");
        if certificate { agent } else { bootstrap }
    })
}

fn code(event: &Value) -> u64 {
    event["responseStatus"]["code"].as_u64().unwrap_or_default()
}

fn text<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// `update managedclusters/status` and so on.
fn words(event: &Value) -> String {
    let (resource, sub) =
        (text(event, "/objectRef/resource"), text(event, "/objectRef/subresource"));
    let what = match (resource, sub) {
        ("", _) => text(event, "/requestURI").to_owned(),
        (resource, "") => resource.to_owned(),
        (resource, sub) => format!("{resource}/{sub}"),
    };
    format!("{} {what}", text(event, "/verb"))
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
fn audit_every_granted_right_is_used() {
    let (granted, requests) = (granted(), on_managed());
    let unused: Vec<&Right> =
        granted.iter().filter(|right| !requests.iter().any(|event| uses(event, right))).collect();
    println!("{} rights, {} requests", granted.len(), requests.len());
    assert!(unused.is_empty(), "granted and never used: {unused:#?}");
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn audit_no_right_is_missing_but_where_it_was_taken_away() {
    let refused: Vec<String> = on_managed()
        .iter()
        .filter(|event| code(event) == 403)
        .filter(|event| !text(event, "/objectRef/namespace").starts_with("revoked-"))
        .map(|event| format!("{} {}", words(event), text(event, "/requestURI")))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn audit_outside_of_its_namespace_it_only_looks_at_the_servers_health() {
    for event in on_managed() {
        if text(&event, "/objectRef/resource").is_empty() {
            let uri = text(&event, "/requestURI");
            assert!(["/livez", "/healthz", "/version"].contains(&uri), "{uri}");
            continue;
        }
        let user = text(&event, "/user/username");
        let namespace = user.split(':').nth(2).unwrap_or_default();
        assert_eq!(text(&event, "/objectRef/namespace"), namespace, "{event}");
    }
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn audit_on_the_hub_it_does_what_it_has_to_and_deletes_nothing() {
    let requests = "certificatesigningrequests";
    let asking = ["create", "get", "list", "watch"].map(|verb| format!("{verb} {requests}"));
    let cluster = |verbs: &[&str]| -> Vec<String> {
        verbs.iter().map(|verb| format!("{verb} managedclusters")).collect()
    };
    let more = ["patch managedclusters/status", "get leases", "update leases"];
    for (certificate, own) in [
        (false, cluster(&["get", "create"])),
        // A hub at a new address is introduced to by the agent itself.
        (true, cluster(&["get", "create", "list", "watch", "update"])),
    ] {
        let mut allowed: BTreeSet<String> = asking.iter().cloned().chain(own).collect();
        if certificate {
            allowed.extend(more.map(str::to_owned));
        }
        let used: BTreeSet<String> = on_hub(certificate).iter().map(words).collect();
        println!("{used:#?}");
        let others: Vec<_> = used.difference(&allowed).collect();
        assert!(others.is_empty(), "certificate {certificate}: {others:?}");
    }
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn audit_on_the_hub_it_asks_for_nobody_elses_objects() {
    for event in on_hub(true).into_iter().chain(on_hub(false)) {
        let (verb, uri) = (text(&event, "/verb"), text(&event, "/requestURI"));
        let resource = text(&event, "/objectRef/resource");
        let name = text(&event, "/objectRef/name");
        if ["list", "watch"].contains(&verb) {
            let selector = match resource {
                "certificatesigningrequests" => {
                    uri.contains("labelSelector=open-cluster-management.io%2Fcluster-name%3D")
                        || uri.contains("fieldSelector=metadata.name%3D")
                }
                _ => uri.contains("fieldSelector=metadata.name%3D"),
            };
            assert!(selector, "{verb} {uri}");
        }
        if resource == "leases" {
            assert_eq!(name, HEARTBEAT, "{verb} {uri}");
        }
    }
}

/// No test of the past but of now: this one runs an agent.
#[test]
#[ignore = "needs the real control plane's audit log"]
fn audit_in_the_steady_state_nothing_but_the_heartbeat_is_sent() {
    let (spoke, agent) = crate::support::beating("audited", &[]);
    spoke.hub.wait_for_condition(&spoke.cluster, SYNCED, "True");
    pause(3000);
    let ours = || {
        let user = spoke.user();
        requests("hub", |name, _| name == user).iter().map(words).collect::<Vec<_>>()
    };
    // A line may come a moment after the answer.
    let (before, begun) = (ours().len(), Instant::now());
    beats_again(&agent, 10);
    pause(500);
    let after = ours().split_off(before);
    // One each second, however slow this machine is.
    let most = begun.elapsed().as_secs() + 2;
    assert!(after.len() >= 9 && after.len() as u64 <= most, "{most}: {after:?}");
    assert!(after.iter().all(|words| words == "update leases"), "{after:?}");
}
