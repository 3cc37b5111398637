use apiclient::time::{micro_time, seconds_time};
use serde_json::json;

use super::*;
use crate::addon::managed_cluster_addon::tests::{addon, now};

fn ago(seconds: u64) -> SystemTime {
    now() - Duration::from_secs(seconds)
}

fn renewed(time: SystemTime) -> AddOnLease {
    AddOnLease::of(&json!({"spec": {"renewTime": micro_time(time)}}))
}

/// Status, reason and message by this Lease.
fn told(addon: &Value, lease: AddOnLease) -> [String; 3] {
    let (Condition { status, reason, message }, _) =
        AddOn::of(addon).unwrap().by_lease("test", lease, now());
    [status, reason, message]
}

fn texts(all: [&str; 3]) -> [String; 3] {
    all.map(str::to_owned)
}

#[test]
fn addon_lease_no_lease() {
    let unknown = "The status of test add-on is unknown.";
    let expected = texts(["Unknown", "ManagedClusterAddOnLeaseNotFound", unknown]);
    assert_eq!(told(&addon(&json!({})), AddOnLease::Absent), expected);
}

#[test]
fn addon_lease_hosted_no_lease() {
    let hosting = json!({"addon.open-cluster-management.io/hosting-cluster-name": "hosting1"});
    let hosted = addon(&json!({"metadata": {"annotations": hosting}}));
    let message = "The status of test add-on is unknown. No lease found on hosting cluster \"hosting1\"; \
                   verify it matches the cluster where this managed cluster's klusterlet actually runs.";
    let expected = texts(["Unknown", "ManagedClusterAddOnLeaseNotFound", message]);
    assert_eq!(told(&hosted, AddOnLease::Absent), expected);
}

#[test]
fn addon_lease_stale_and_fresh() {
    let addon = addon(&json!({}));
    let message = "test add-on is available.";
    let fresh = texts(["True", "ManagedClusterAddOnLeaseUpdated", message]);
    let message = "test add-on is not available.";
    let stale = texts(["False", "ManagedClusterAddOnLeaseUpdateStopped", message]);
    for (age, expected) in [(0, &fresh), (299, &fresh), (300, &stale), (3600, &stale)] {
        assert_eq!(told(&addon, renewed(ago(age))), *expected, "{age}");
    }
    let ahead = renewed(now() + Duration::from_secs(3600));
    assert_eq!(told(&addon, ahead), fresh, "of a clock that is ahead");
}

#[test]
fn addon_lease_is_looked_at_again_when_it_goes_stale() {
    let addon = AddOn::of(&addon(&json!({}))).unwrap();
    let until = |lease| addon.by_lease("test", lease, now()).1;
    assert_eq!(until(renewed(ago(100))), Some(now() + Duration::from_secs(200)));
    assert_eq!((until(renewed(ago(300))), until(AddOnLease::Absent)), (None, None));
}

/// Upstream's agent crashes on it.
#[test]
fn addon_lease_without_a_renew_time_counts_from_its_creation() {
    for (created, status) in [(10, "True"), (300, "False")] {
        let lease = json!({
            "metadata": {"creationTimestamp": seconds_time(ago(created))}, "spec": {"renewTime": null},
        });
        assert_eq!(told(&addon(&json!({})), AddOnLease::of(&lease))[0], status);
    }
    for odd in [json!({}), json!(null), json!({"spec": {"renewTime": "yesterday"}})] {
        assert_eq!(told(&addon(&json!({})), AddOnLease::of(&odd))[0], "False", "{odd}");
    }
}
