//! Condition Available of add-ons, by the Leases that their agents renew (ocm
//! `pkg/registration/spoke/addon/lease_controller.go`).

use std::time::{Duration, Instant, SystemTime};

use apiclient::{backoff::Backoff, log_object, resource::LEASES, time::parse_micro_time};
use serde_json::Value;

use super::{
    cluster_of,
    managed_cluster_addon::{AddOn, AddOnNamespace},
};
use crate::{agent::Agent, certificate::store, conditions::Condition};

/// As upstream (AddOnLeaseControllerSyncInterval).
const READ_INTERVAL: Duration = Duration::from_secs(30);
/// The same until the Lease is first there.
const FIRST_READ_INTERVAL: Duration = Duration::from_secs(5);
/// A Lease that was not renewed for so long is stale, whatever its own duration says (the same file,
/// leaseDurationTimes and AddOnLeaseControllerLeaseDurationSeconds).
const GRACE_PERIOD: Duration = Duration::from_secs(5 * 60);

/// The Lease of one add-on, and what it said when it was last read.
pub(super) struct LeaseReader {
    namespace: Option<AddOnNamespace>,
    pub(super) condition: Option<Condition>,
    was_there: bool,
    due: Instant,
    errors: Backoff,
}

impl Default for LeaseReader {
    fn default() -> Self {
        let (due, errors) = (Instant::now(), Backoff::new(READ_INTERVAL));
        Self { namespace: None, condition: None, was_there: false, due, errors }
    }
}

impl LeaseReader {
    /// Reads the Lease if it is due; returns when it is due again. One that cannot be read changes nothing: it may have
    /// been renewed.
    pub(super) fn refresh(&mut self, agent: &Agent, name: &str, addon: &AddOn) -> Instant {
        if self.namespace.as_ref() != Some(&addon.namespace) {
            *self = Self { namespace: Some(addon.namespace.clone()), ..Self::default() };
        }
        if Instant::now() >= self.due {
            self.due = Instant::now() + self.read(agent, name, addon);
        }
        self.due
    }

    /// Reads the Lease; returns for how long that counts.
    fn read(&mut self, agent: &Agent, name: &str, addon: &AddOn) -> Duration {
        let target = LEASES.object(&addon.namespace.name, name);
        let lease = match store::read(cluster_of(agent, &addon.namespace), &target) {
            Ok(lease) => lease.map(|lease| renewed(&lease)),
            Err(error) => {
                let retry = self.errors.failed(&error, Instant::now(), fastrand::f64());
                log_object!(retry.level(), target, error:% = error; "the Lease of an add-on cannot be read");
                return retry.wait;
            }
        };
        self.errors.succeeded();
        self.was_there |= lease.is_some();
        self.condition = Some(available(name, addon, lease, SystemTime::now()));
        if self.was_there { READ_INTERVAL } else { FIRST_READ_INTERVAL }
    }
}

/// The condition by a Lease that was last `renewed`; `None` if there is no Lease.
fn available(
    name: &str,
    addon: &AddOn,
    renewed: Option<Option<SystemTime>>,
    now: SystemTime,
) -> Condition {
    let Some(renewed) = renewed else {
        let mut message = format!("The status of {name} add-on is unknown.");
        if let Some(hosting) = &addon.hosting_cluster {
            message += &format!(
                " No lease found on hosting cluster \"{hosting}\"; verify it matches the cluster where this managed cluster's klusterlet actually runs."
            );
        }
        return Condition::new("Unknown", "ManagedClusterAddOnLeaseNotFound", message);
    };
    let stale = renewed.and_then(|time| time.checked_add(GRACE_PERIOD));
    if stale.is_some_and(|stale| now < stale) {
        let message = format!("{name} add-on is available.");
        Condition::new("True", "ManagedClusterAddOnLeaseUpdated", message)
    } else {
        let message = format!("{name} add-on is not available.");
        Condition::new("False", "ManagedClusterAddOnLeaseUpdateStopped", message)
    }
}

/// The time of the last renewal, or else of the creation: upstream's agent crashes on a Lease without `renewTime` (the
/// same file, `RenewTime.Add`).
fn renewed(lease: &Value) -> Option<SystemTime> {
    let time = |value: &Value| value.as_str().and_then(parse_micro_time);
    time(&lease["spec"]["renewTime"]).or_else(|| time(&lease["metadata"]["creationTimestamp"]))
}

#[cfg(test)]
mod tests;
