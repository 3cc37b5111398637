//! Condition Available of an add-on, by its Lease: pure.

use std::time::{Duration, SystemTime};

use apiclient::time::parse_micro_time;
use serde_json::Value;

use super::managed_cluster_addon::AddOn;
use crate::conditions::Condition;

/// A Lease that was not renewed for so long is stale, whatever its own duration says (ocm
/// `pkg/registration/spoke/addon/lease_controller.go`, leaseDurationTimes and
/// AddOnLeaseControllerLeaseDurationSeconds).
const GRACE_PERIOD: Duration = Duration::from_secs(5 * 60);
/// The Lease of an add-on's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddOnLease {
    Absent,
    /// The time of the last renewal, or of its creation; `None` if it has neither.
    Renewed(Option<SystemTime>),
}

impl AddOn {
    /// The condition by this Lease, and when it changes unless the Lease is renewed.
    pub(super) fn by_lease(
        &self,
        name: &str,
        lease: AddOnLease,
        now: SystemTime,
    ) -> (Condition, Option<SystemTime>) {
        let stale = match lease {
            AddOnLease::Renewed(time) => time.and_then(|time| time.checked_add(GRACE_PERIOD)),
            AddOnLease::Absent => {
                let mut message = format!("The status of {name} add-on is unknown.");
                if let Some(hosting) = &self.hosting_cluster {
                    message += &format!(
                        " No lease found on hosting cluster \"{hosting}\"; verify it matches the cluster where this managed cluster's klusterlet actually runs."
                    );
                }
                let reason = "ManagedClusterAddOnLeaseNotFound";
                return (Condition::new("Unknown", reason, message), None);
            }
        };
        let stale = stale.filter(|stale| now < *stale);
        let condition = match stale {
            Some(_) => {
                let message = format!("{name} add-on is available.");
                Condition::new("True", "ManagedClusterAddOnLeaseUpdated", message)
            }
            None => {
                let message = format!("{name} add-on is not available.");
                Condition::new("False", "ManagedClusterAddOnLeaseUpdateStopped", message)
            }
        };
        (condition, stale)
    }
}

impl AddOnLease {
    /// What `lease` says. One that nobody has renewed yet counts from its creation: upstream's agent crashes on it
    /// (ocm `pkg/registration/spoke/addon/lease_controller.go`, `RenewTime.Add`).
    pub(super) fn of(lease: &Value) -> Self {
        let time = |value: &Value| value.as_str().and_then(parse_micro_time);
        let created = || time(&lease["metadata"]["creationTimestamp"]);
        Self::Renewed(time(&lease["spec"]["renewTime"]).or_else(created))
    }
}

#[cfg(test)]
mod tests;
