//! Condition Available of an add-on, by its Lease: pure.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use shared::{
    resource::{valid_label, valid_name},
    time::parse_micro_time,
};

use crate::conditions::{guard, set};

/// The condition's type.
const AVAILABLE: &str = "Available";
/// A Lease that was not renewed for so long is stale, whatever its own duration says (ocm
/// `pkg/registration/spoke/addon/lease_controller.go`, leaseDurationTimes and
/// AddOnLeaseControllerLeaseDurationSeconds).
const GRACE_PERIOD: Duration = Duration::from_secs(5 * 60);
/// The namespace of an add-on that names none (ocm `pkg/registration/spoke/addon/configuration.go`).
const INSTALL_NAMESPACE: &str = "open-cluster-management-agent-addon";
const ANNOTATIONS: [&str; 2] = [
    "addon.open-cluster-management.io/v1alpha1-install-namespace",
    "addon.open-cluster-management.io/hosting-cluster-name",
];

/// A ManagedClusterAddOn, as far as its availability is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddOn {
    /// The Leases among which its agent's is.
    pub(super) leases: LeaseNamespace,
    /// The cluster that its agent runs on, if that is not this one.
    pub(super) hosting_cluster: Option<String>,
    /// Somebody else tells its health.
    pub(super) customized: bool,
    /// The condition Available, as it is on the hub.
    pub(super) available: Option<Availability>,
}

/// A namespace of the spoke, or of the management cluster for agents that are hosted there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeaseNamespace {
    pub(super) hosted: bool,
    pub(super) name: String,
}

/// The Lease of an add-on's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddOnLease {
    Absent,
    /// The time of the last renewal, or of its creation; `None` if it has neither.
    Renewed(Option<SystemTime>),
}

/// Status, reason and message of the condition Available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Availability {
    pub(super) status: String,
    reason: String,
    message: String,
}

impl AddOn {
    /// What `object` says; `None` where it names what cannot be a namespace.
    pub(super) fn of(object: &Value) -> Option<Self> {
        let annotations = &object["metadata"]["annotations"];
        let [installed, hosting] =
            ANNOTATIONS.map(|key| annotations[key].as_str().filter(|value| !value.is_empty()));
        let told = object["status"]["namespace"].as_str().filter(|name| !name.is_empty());
        let namespace = told.or(installed).unwrap_or(INSTALL_NAMESPACE);
        let name = object["metadata"]["name"].as_str()?;
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let available = conditions.find(|condition| condition["type"] == AVAILABLE);
        (valid_label(namespace) && valid_name(name)).then(|| Self {
            leases: LeaseNamespace { hosted: hosting.is_some(), name: namespace.to_owned() },
            hosting_cluster: hosting.map(str::to_owned),
            customized: object["status"]["healthCheck"]["mode"] == "Customized",
            available: available.map(Availability::of),
        })
    }

    /// The condition by this Lease, and when it changes unless the Lease is renewed.
    pub(super) fn by_lease(
        &self,
        name: &str,
        lease: AddOnLease,
        now: SystemTime,
    ) -> (Availability, Option<SystemTime>) {
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
                return (Availability::new("Unknown", reason, message), None);
            }
        };
        let stale = stale.filter(|stale| now < *stale);
        let availability = match stale {
            Some(_) => {
                let message = format!("{name} add-on is available.");
                Availability::new("True", "ManagedClusterAddOnLeaseUpdated", message)
            }
            None => {
                let message = format!("{name} add-on is not available.");
                Availability::new("False", "ManagedClusterAddOnLeaseUpdateStopped", message)
            }
        };
        (availability, stale)
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

impl Availability {
    fn new(status: &str, reason: &str, message: String) -> Self {
        Self { status: status.to_owned(), reason: reason.to_owned(), message }
    }

    fn of(condition: &Value) -> Self {
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Self { status: text("status"), reason: text("reason"), message: text("message") }
    }

    /// The patch that gives `addon` this condition; `None` if it is no object.
    pub(super) fn patch(&self, addon: &Value, now: SystemTime) -> Option<Value> {
        let mut conditions = addon["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let Self { status, reason, message } = self;
        set(&mut conditions, [AVAILABLE, status, reason, message], now);
        // The patch replaces the whole list of conditions: a stale one must be rejected.
        Some(json!({"metadata": guard(addon)?, "status": {"conditions": conditions}}))
    }
}

#[cfg(test)]
mod tests;
