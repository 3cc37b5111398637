//! The rights of csr-bootstrapper, by the audit logs of a whole run on the real control plane: each is used, none is
//! missing, and on the hub it does only what it must.
//!
//! `SUITE=real testing/controlplane/run.sh sh -c 'cargo test -p suite --test csr_bootstrapper; cargo test
//! -p suite --test csr_bootstrapper -- --ignored'`

use std::{collections::BTreeSet, time::Instant};

use serde_json::Value;
use suite::{
    audit::{
        self, assert_none_is_missing, assert_used, granted, is_in_group, is_of_account, text, user,
        words,
    },
    ocm::{HEARTBEAT, PREFIX, SYNCED},
    pause,
    spoke::{addon_rights, cluster_rights, rights},
};

use crate::support::beats_again;

/// The program's requests on "hub" or "managed" of which `is_ours` is true. The Go agent's are no business of ours;
/// nor those of tests that play an agent by hand.
fn requests(cluster: &str, is_ours: impl Fn(&Value) -> bool) -> Vec<Value> {
    let is_program = |event: &Value| text(event, "/userAgent").starts_with("csr-bootstrapper/");
    audit::requests(cluster, |event| is_program(event) && is_ours(event))
}

fn on_managed() -> Vec<Value> {
    let account = rights()[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    requests("managed", |event| is_of_account(event, &account))
}

/// With a certificate, or with a bootstrap identity.
fn on_hub(certificate: bool) -> Vec<Value> {
    requests("hub", |event| match certificate {
        true => is_in_group(event, &format!("{PREFIX}managed-clusters")),
        false => user(event).starts_with("system:serviceaccount:open-cluster-management:"),
    })
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn audit_every_granted_right_is_used() {
    assert_used(&granted(&[rights(), cluster_rights(), addon_rights()].concat()), &on_managed());
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn audit_no_right_is_missing_but_where_it_was_taken_away() {
    assert_none_is_missing(&on_managed());
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn audit_outside_of_its_namespace_it_has_to_do_with_health_nodes_namespaces_claims_and_add_ons() {
    for event in on_managed() {
        if text(&event, "/objectRef/resource").is_empty() {
            let uri = text(&event, "/requestURI");
            let groups = ["cluster.open-cluster-management.io", "about.k8s.io"];
            let kinds = groups.map(|group| format!("/apis/{group}/v1alpha1"));
            let known = ["/livez", "/healthz", "/version"].contains(&uri);
            assert!(known || kinds.iter().any(|kinds| kinds == uri), "{uri}");
            continue;
        }
        let outside = ["clusterclaims", "clusterproperties", "namespaces", "nodes"];
        let reads = outside.map(|kind| ["list", "watch"].map(|verb| format!("{verb} {kind}")));
        let writes = ["create namespaces", "patch namespaces"].map(str::to_owned);
        if reads.concat().iter().chain(&writes).any(|known| *known == words(&event)) {
            continue;
        }
        let own = user(&event).split(':').nth(2).unwrap_or_default();
        let namespace = text(&event, "/objectRef/namespace");
        let words = words(&event);
        let is_of_addons = ["get leases", "list leases", "watch leases"].contains(&&*words)
            || words.ends_with(" secrets");
        let of_addons = is_of_addons && namespace.starts_with(&format!("{own}-addons"));
        assert!(namespace == own || of_addons, "{event}");
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
    let more = ["patch managedclusters/status", "get leases", "update leases", "create events"];
    let addons = "managedclusteraddons";
    let of_addons = ["get", "list", "watch"].map(|verb| format!("{verb} {addons}"));
    for (certificate, own) in [
        (false, cluster(&["get", "create"])),
        // A hub at a new address is introduced to by the agent itself.
        (true, cluster(&["get", "create", "list", "watch", "update"])),
    ] {
        let mut allowed: BTreeSet<String> = asking.iter().cloned().chain(own).collect();
        if certificate {
            allowed.extend(more.map(str::to_owned));
            allowed.extend(of_addons.clone());
            allowed.insert(format!("patch {addons}/status"));
            allowed.insert("create serviceaccounts/token".to_owned());
        }
        let used: BTreeSet<String> = on_hub(certificate).iter().map(words).collect();
        println!("{used:#?}");
        let others: Vec<_> = used.difference(&allowed).collect();
        assert!(others.is_empty(), "certificate {certificate}: {others:?}");
    }
}

/// The cluster of an agent's request.
fn cluster(event: &Value) -> &str {
    user(event).strip_prefix(PREFIX).and_then(|user| user.split(':').next()).unwrap_or_default()
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
                // All of its own namespace.
                "managedclusteraddons" => text(&event, "/objectRef/namespace") == cluster(&event),
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
        let agent = spoke.user();
        requests("hub", |event| user(event) == agent).iter().map(words).collect::<Vec<_>>()
    };
    // Taken first: reading the whole log takes seconds, and the agent beats on meanwhile.
    let begun = Instant::now();
    let before = ours().len();
    beats_again(&agent, 10);
    // A line may come a moment after the answer.
    pause(500);
    let after = ours().split_off(before);
    // One each second, however slow this machine is.
    let most = begun.elapsed().as_secs() + 2;
    assert!(after.len() >= 9 && after.len() as u64 <= most, "{most}: {after:?}");
    assert!(after.iter().all(|words| words == "update leases"), "{after:?}");
}
