//! The rights of csr-bootstrapper, by the audit logs of a whole run on the real control plane: each is used, none is
//! missing, and on the hub it does only what it must.
//!
//! `SUITE=real testing/controlplane/run.sh sh -c 'cargo test -p suite --test csr_bootstrapper; cargo test
//! -p suite --test csr_bootstrapper -- --ignored'`

use std::collections::BTreeSet;

use serde_json::Value;
use suite::{
    audit::{
        self, assert_none_is_missing, assert_used, granted, is_in_group, is_of_account, text, user,
        words,
    },
    ocm::{HEARTBEAT, PREFIX},
    spoke::{addon_rights, cluster_rights, rights},
};

/// The program's requests on "hub" or "managed" of which `is_ours` is true. Neither the Go agent's
/// requests count, nor a test's own.
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
fn audit_outside_its_namespace_only_granted_kinds_are_used() {
    for event in on_managed() {
        if text(&event, "/objectRef/resource").is_empty() {
            let uri = text(&event, "/requestURI");
            assert!(["/livez", "/healthz", "/version"].contains(&uri), "{uri}");
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
        let is_of_addons = words == "get leases" || words.ends_with(" secrets");
        let of_addons = is_of_addons && namespace.starts_with(&format!("{own}-addons"));
        assert!(namespace == own || of_addons, "{event}");
    }
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn audit_hub_sees_only_the_needed_writes_and_no_deletion() {
    let requests = "certificatesigningrequests";
    let asking = ["create", "get", "list", "watch"].map(|verb| format!("{verb} {requests}"));
    let cluster = |verbs: &[&str]| -> Vec<String> {
        verbs.iter().map(|verb| format!("{verb} managedclusters")).collect()
    };
    let more = ["patch managedclusters/status", "get leases", "update leases", "create events"];
    let addons = "managedclusteraddons";
    let of_addons = ["get", "list", "watch"].map(|verb| format!("{verb} {addons}"));
    for (certificate, own) in
        [(false, cluster(&["get", "create"])), (true, cluster(&["get", "list", "watch", "update"]))]
    {
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
fn audit_hub_sees_no_request_for_foreign_objects() {
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
