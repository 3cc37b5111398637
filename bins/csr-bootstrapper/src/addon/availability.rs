//! Condition Available of add-ons, by the Leases that their agents renew (ocm
//! `pkg/registration/spoke/addon/lease_controller.go`): pure.

use std::time::{Duration, SystemTime};

use apiclient::time::parse_micro_time;
use serde_json::Value;

use super::managed_cluster_addon::AddOn;
use crate::conditions::Condition;

/// A Lease that was not renewed for so long is stale, whatever its own duration says (leaseDurationTimes and
/// AddOnLeaseControllerLeaseDurationSeconds).
const GRACE_PERIOD: Duration = Duration::from_secs(5 * 60);

/// The condition by the add-on's Lease, if there is one.
pub(super) fn available(addon: &AddOn, lease: Option<&Value>, now: SystemTime) -> Condition {
    let name = &addon.name;
    let Some(lease) = lease else {
        let mut message = format!("The status of {name} add-on is unknown.");
        if let Some(hosting) = &addon.hosting_cluster {
            message += &format!(
                " No lease found on hosting cluster \"{hosting}\"; verify it matches the cluster where this managed cluster's klusterlet actually runs."
            );
        }
        return Condition::new("Unknown", "ManagedClusterAddOnLeaseNotFound", message);
    };
    let stale = renewed(lease).and_then(|time| time.checked_add(GRACE_PERIOD));
    if stale.is_some_and(|stale| now < stale) {
        let message = format!("{name} add-on is available.");
        Condition::new("True", "ManagedClusterAddOnLeaseUpdated", message)
    } else {
        let message = format!("{name} add-on is not available.");
        Condition::new("False", "ManagedClusterAddOnLeaseUpdateStopped", message)
    }
}

/// The time of the last renewal, or else of the creation: upstream's agent crashes on a Lease without `renewTime`.
fn renewed(lease: &Value) -> Option<SystemTime> {
    let time = |value: &Value| value.as_str().and_then(parse_micro_time);
    time(&lease["spec"]["renewTime"]).or_else(|| time(&lease["metadata"]["creationTimestamp"]))
}

#[cfg(test)]
mod tests;
