//! Availability of add-ons, by the Leases that their agents renew.

use std::time::{Duration, SystemTime};

use apiclient::{resource::LEASES, time::micro_time};
use serde_json::{Value, json};
use suite::{cluster::Cluster, pause, rights::revoke, spoke::Spoke};

use crate::support::joined;

pub(crate) const ADDON: &str = "addon1";

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
