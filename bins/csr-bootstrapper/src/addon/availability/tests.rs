use apiclient::time::{micro_time, seconds_time};
use serde_json::json;

use super::*;
use crate::{
    addon::managed_cluster_addon::tests::{addon, hosted_by},
    certificate::authority::now,
};

fn ago(seconds: u64) -> SystemTime {
    now() - Duration::from_secs(seconds)
}

fn lease(renewed: SystemTime) -> Value {
    json!({"spec": {"renewTime": micro_time(renewed)}})
}

#[test]
fn addon_lease_fresh_stale_and_gone() {
    let updated = ("True", "ManagedClusterAddOnLeaseUpdated", "test add-on is available.");
    let stopped =
        ("False", "ManagedClusterAddOnLeaseUpdateStopped", "test add-on is not available.");
    let unknown =
        ("Unknown", "ManagedClusterAddOnLeaseNotFound", "The status of test add-on is unknown.");
    let created = |seconds| json!({"metadata": {"creationTimestamp": seconds_time(ago(seconds))}});
    for (lease, (status, reason, message)) in [
        (None, unknown),
        (Some(lease(ago(0))), updated),
        (Some(lease(ago(299))), updated),
        (Some(lease(ago(300))), stopped),
        (Some(lease(ago(3600))), stopped),
        // Of a clock that is ahead.
        (Some(lease(now() + Duration::from_secs(3600))), updated),
        // Upstream's agent crashes without a renewTime.
        (Some(created(10)), updated),
        (Some(created(300)), stopped),
        (Some(json!({"spec": {"renewTime": "yesterday"}})), stopped),
        (Some(json!(null)), stopped),
    ] {
        let found = available(&addon(&json!({})), lease.as_ref(), now());
        assert_eq!(found, Condition::new(status, reason, message.to_owned()), "{lease:?}");
    }
}

#[test]
fn addon_lease_hosted_no_lease() {
    let message = "The status of test add-on is unknown. No lease found on hosting cluster \"hosting1\"; \
                   verify it matches the cluster where this managed cluster's klusterlet actually runs.";
    assert_eq!(available(&addon(&hosted_by("hosting1")), None, now()).message, message);
}
