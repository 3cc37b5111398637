use apiclient::time::{micro_time, seconds_time};
use serde_json::json;

use super::*;
use crate::addon::managed_cluster_addon::tests::{addon, now};

fn ago(seconds: u64) -> SystemTime {
    now() - Duration::from_secs(seconds)
}

fn renewed_at(time: SystemTime) -> Option<Option<SystemTime>> {
    Some(renewed(&json!({"spec": {"renewTime": micro_time(time)}})))
}

/// Status, reason and message by this Lease.
fn told(addon: &Value, renewed: Option<Option<SystemTime>>) -> [String; 3] {
    let Condition { status, reason, message } =
        available("test", &AddOn::of(addon).unwrap(), renewed, now());
    [status, reason, message]
}

fn texts(all: [&str; 3]) -> [String; 3] {
    all.map(str::to_owned)
}

#[test]
fn addon_lease_no_lease() {
    let unknown = "The status of test add-on is unknown.";
    let expected = texts(["Unknown", "ManagedClusterAddOnLeaseNotFound", unknown]);
    assert_eq!(told(&addon(&json!({})), None), expected);
}

#[test]
fn addon_lease_hosted_no_lease() {
    let hosting = json!({"addon.open-cluster-management.io/hosting-cluster-name": "hosting1"});
    let hosted = addon(&json!({"metadata": {"annotations": hosting}}));
    let message = "The status of test add-on is unknown. No lease found on hosting cluster \"hosting1\"; \
                   verify it matches the cluster where this managed cluster's klusterlet actually runs.";
    let expected = texts(["Unknown", "ManagedClusterAddOnLeaseNotFound", message]);
    assert_eq!(told(&hosted, None), expected);
}

#[test]
fn addon_lease_stale_and_fresh() {
    let addon = addon(&json!({}));
    let message = "test add-on is available.";
    let fresh = texts(["True", "ManagedClusterAddOnLeaseUpdated", message]);
    let message = "test add-on is not available.";
    let stale = texts(["False", "ManagedClusterAddOnLeaseUpdateStopped", message]);
    for (age, expected) in [(0, &fresh), (299, &fresh), (300, &stale), (3600, &stale)] {
        assert_eq!(told(&addon, renewed_at(ago(age))), *expected, "{age}");
    }
    let ahead = renewed_at(now() + Duration::from_secs(3600));
    assert_eq!(told(&addon, ahead), fresh, "of a clock that is ahead");
}

/// Upstream's agent crashes on it.
#[test]
fn addon_lease_without_a_renew_time_counts_from_its_creation() {
    for (created, status) in [(10, "True"), (300, "False")] {
        let lease = json!({
            "metadata": {"creationTimestamp": seconds_time(ago(created))}, "spec": {"renewTime": null},
        });
        assert_eq!(told(&addon(&json!({})), Some(renewed(&lease)))[0], status);
    }
    for odd in [json!({}), json!(null), json!({"spec": {"renewTime": "yesterday"}})] {
        assert_eq!(told(&addon(&json!({})), Some(renewed(&odd)))[0], "False", "{odd}");
    }
}
