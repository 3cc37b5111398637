//! The rights of csr-bootstrapper, by the audit logs of a whole run on the real control plane: each is used, none is
//! missing, and on the hub it sends only the necessary requests.
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
fn audit_every_granted_right_is_used_and_none_is_missing() {
    let requests = on_managed();
    assert_used(&granted(&[rights(), cluster_rights(), addon_rights()].concat()), &requests);
    assert_none_is_missing(&requests);
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn audit_hub_sees_only_the_needed_writes_and_no_deletion() {
    let csrs =
        ["create", "get", "list", "watch"].map(|verb| format!("{verb} certificatesigningrequests"));
    let by_bootstrap = ["get managedclusters", "create managedclusters"];
    let by_certificate = [
        "get managedclusters",
        "list managedclusters",
        "watch managedclusters",
        "update managedclusters",
        "patch managedclusters/status",
        "get leases",
        "update leases",
        "create events",
        "get managedclusteraddons",
        "list managedclusteraddons",
        "watch managedclusteraddons",
        "patch managedclusteraddons/status",
        "create serviceaccounts/token",
    ];
    for (certificate, own) in [(false, &by_bootstrap[..]), (true, &by_certificate)] {
        let mut others: BTreeSet<String> = on_hub(certificate).iter().map(words).collect();
        others.retain(|words| !csrs.contains(words) && !own.contains(&&**words));
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
            assert_eq!(text(&event, "/objectRef/name"), HEARTBEAT, "{verb} {uri}");
        }
    }
}
