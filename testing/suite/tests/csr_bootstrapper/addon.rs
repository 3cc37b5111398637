//! Availability of add-ons, by the Leases that their agents renew.

use std::time::{Duration, SystemTime};

use apiclient::{resource::LEASES, time::micro_time};
use serde_json::{Value, json};
use suite::{cluster::Cluster, eventually, pause, rights::revoke, sidecar::Sidecar, spoke::Spoke};

use crate::support::joined;

pub(crate) const ADDON: &str = "addon1";

/// A cluster with an add-on, whose agent is in a namespace of its own.
fn with_addon(name: &str) -> (Spoke, Sidecar, String) {
    let (spoke, agent) = joined(name, &[]);
    let namespace = spoke.addon_namespace();
    spoke.hub.add_addon(&spoke.cluster, ADDON, &namespace);
    (spoke, agent, namespace)
}

pub(crate) fn seconds_ago(seconds: u64) -> Value {
    json!(micro_time(SystemTime::now() - Duration::from_secs(seconds)))
}

/// The add-on's agent renewed its Lease then; it creates it the first time.
pub(crate) fn renew(cluster: &Cluster, namespace: &str, time: &Value) {
    let target = LEASES.object(namespace, ADDON);
    let spec = json!({"spec": {"renewTime": time}});
    if cluster.get(&target).is_some() {
        cluster.merge(&target, &spec);
        return;
    }
    let lease = json!({
        "apiVersion": LEASES.api_version(), "kind": "Lease",
        "metadata": {"name": ADDON, "namespace": namespace}, "spec": spec["spec"],
    });
    cluster.create(&target.siblings(), &lease);
}

/// Reason and message of the condition, once it has this status.
#[track_caller]
pub(crate) fn told(spoke: &Spoke, status: &str) -> (String, String) {
    let condition = spoke.hub.wait_for_addon(&spoke.cluster, ADDON, status);
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

fn texts(reason: &str, message: &str) -> (String, String) {
    (reason.to_owned(), message.to_owned())
}

#[test]
fn addon_lease_found_fresh_stale_and_gone() {
    let (spoke, _agent, namespace) = with_addon("addon-lease");
    let unknown =
        texts("ManagedClusterAddOnLeaseNotFound", "The status of addon1 add-on is unknown.");
    assert_eq!(told(&spoke, "Unknown"), unknown);
    let fresh = texts("ManagedClusterAddOnLeaseUpdated", "addon1 add-on is available.");
    // The rest of the 300 seconds passes without another event.
    renew(&spoke.managed, &namespace, &seconds_ago(292));
    assert_eq!(told(&spoke, "True"), fresh);
    let stale = texts("ManagedClusterAddOnLeaseUpdateStopped", "addon1 add-on is not available.");
    assert_eq!(told(&spoke, "False"), stale);
    renew(&spoke.managed, &namespace, &seconds_ago(0));
    assert_eq!(told(&spoke, "True"), fresh);
    spoke.managed.delete(&LEASES.object(&namespace, ADDON));
    assert_eq!(told(&spoke, "Unknown"), unknown);
    // The hub may know it under another name by then.
    spoke.hub.delete_addon(&spoke.cluster, ADDON);
    eventually("it is gone", || spoke.hub.addon(&spoke.cluster, ADDON).is_none());
}

/// Two controllers of the hub may write this condition, and another agent.
#[test]
fn addon_condition_of_another_writer_is_corrected() {
    let (spoke, _agent, namespace) = with_addon("addon-fight");
    renew(&spoke.managed, &namespace, &seconds_ago(0));
    told(&spoke, "True");
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "Theirs", "message": "",
            "lastTransitionTime": "2026-11-23T00:00:00Z"})
    };
    let conditions = [condition("Other", "True"), condition("Available", "Unknown")];
    spoke.hub.set_addon_status(&spoke.cluster, ADDON, &json!({"conditions": conditions}));
    told(&spoke, "True");
    let addon = spoke.hub.addon(&spoke.cluster, ADDON).expect("the add-on");
    assert_eq!(addon["status"]["conditions"][0], conditions[0], "that of others stays");
    // In another namespace it has another Lease.
    let other = spoke.addon_namespace();
    spoke.hub.set_addon_status(&spoke.cluster, ADDON, &json!({"namespace": other}));
    told(&spoke, "Unknown");
    renew(&spoke.managed, &other, &seconds_ago(0));
    told(&spoke, "True");
}

/// What cannot be read may have been renewed all the while.
#[test]
fn addon_lease_that_may_not_be_read_is_not_stale() {
    let (spoke, agent) = joined("revoked-addon", &[]);
    let namespace = spoke.addon_namespace();
    assert!(namespace.starts_with("revoked-"));
    renew(&spoke.managed, &namespace, &seconds_ago(292));
    spoke.hub.add_addon(&spoke.cluster, ADDON, &namespace);
    told(&spoke, "True");
    let get = revoke(&spoke.managed, &namespace, "csr-bootstrapper", "get", "leases");
    agent.wait_for("the Lease of an add-on cannot be read");
    pause(9000);
    assert_eq!(told(&spoke, "True").0, "ManagedClusterAddOnLeaseUpdated");
    get.grant();
    told(&spoke, "False");
}
