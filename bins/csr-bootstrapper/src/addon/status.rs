//! Status of an add-on on the hub: the part that this agent writes, by the add-on's credentials and its Lease (ocm
//! `pkg/registration/spoke/addon/lease_controller.go`).

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

use apiclient::{
    client::Client,
    error::{Result, optional},
    log_object,
    resource::{LEASES, Target},
    stop::Stop,
    time::parse_micro_time,
};
use log::Level;
use serde_json::{Map, Value, json};

use super::managed_cluster_addon::{
    AddOn, MANAGED_CLUSTER_ADDONS, READ_INTERVAL, service_account_user,
};
use crate::{
    agent::Agent,
    certificate::csr::KUBE_API_SERVER_CLIENT,
    conditions::{Condition, TypedCondition, changed, patch_status},
    pacing::Pace,
    settings::KubeClientDriver,
    state::HubSession,
};

const AVAILABLE: &str = "Available";
/// A Lease without a renewal for this time is stale, whatever its own duration is (leaseDurationTimes and
/// AddOnLeaseControllerLeaseDurationSeconds).
const GRACE_PERIOD: Duration = Duration::from_secs(5 * 60);
/// Interval between reads of a Lease that does not exist.
const ABSENT_READ_INTERVAL: Duration = Duration::from_secs(5);

/// What this agent wants in the status; the rest stays.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AddOnStatus {
    conditions: BTreeMap<&'static str, Condition>,
    /// `kubeClientDriver`: how the add-on's agent gets a credential for the hub's API server; empty if it needs none.
    driver: &'static str,
    /// The user of the registration for the hub's API server; `None` if a certificate has the user.
    user: Option<String>,
}

impl AddOnStatus {
    /// If several certificates report the same condition, a failure wins.
    fn new(addon: &AddOn, cluster: &str, conditions: impl Iterator<Item = TypedCondition>) -> Self {
        let mut conditions: Vec<_> = conditions.collect();
        conditions.sort_by_key(|(_, condition)| condition.status == "False");
        let has_user = addon.driver.is_some_and(|driver| driver != KubeClientDriver::Csr);
        Self {
            conditions: conditions.into_iter().collect(),
            driver: addon.driver.map_or("", KubeClientDriver::name),
            user: has_user.then(|| service_account_user(cluster, &addon.name)),
        }
    }

    fn patch(&self, addon: &Value, now: SystemTime) -> Map<String, Value> {
        let status = &addon["status"];
        let wanted = self.conditions.iter().map(|(kind, condition)| (*kind, condition));
        let is_known = status["kubeClientDriver"].as_str().unwrap_or_default() == self.driver;
        let driver = json!(Some(self.driver).filter(|driver| !driver.is_empty()));
        let fields = [
            ("conditions", changed(status, wanted, now)),
            ("kubeClientDriver", (!is_known).then_some(driver)),
            ("registrations", self.registrations(&status["registrations"])),
        ];
        fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?))).collect()
    }

    /// Returns the registrations with the wanted user; `None` if they have it.
    fn registrations(&self, before: &Value) -> Option<Value> {
        let subject = json!({"user": self.user.as_ref()?});
        let mut registrations = before.clone();
        let mut all = registrations.as_array_mut()?.iter_mut();
        let ours = all.find(|one| one["signerName"] == KUBE_API_SERVER_CLIENT)?;
        let differs = ours["subject"] != subject;
        ours["subject"] = subject;
        differs.then_some(registrations)
    }
}

#[derive(Default)]
pub(super) struct AddOnReporter {
    /// The condition by the last read of the Lease.
    available: Option<Condition>,
    lease: Pace,
    /// The last status, the add-on's version known at that time, and the version that has the status.
    reported: Option<(AddOnStatus, [String; 2])>,
    pace: Pace,
}

impl AddOnReporter {
    pub(super) fn reconcile(
        &mut self,
        agent: &Agent,
        session: &HubSession,
        addon: &AddOn,
        credentials: impl Iterator<Item = TypedCondition>,
    ) -> Instant {
        let (mut until, mut available) = (Instant::now() + Stop::SLICE, None);
        if !addon.customized {
            until = self.read_lease(agent, addon);
            available = self.available.clone().map(|condition| (AVAILABLE, condition));
        }
        let cluster = &session.names.cluster;
        let wanted = AddOnStatus::new(addon, cluster, credentials.chain(available));
        until.min(self.report(session, addon, wanted))
    }

    /// Reads the Lease if it is due. A failed read changes nothing: the Lease may have been renewed.
    fn read_lease(&mut self, agent: &Agent, addon: &AddOn) -> Instant {
        if Instant::now() < self.lease.at {
            return self.lease.at;
        }
        let target = LEASES.object(&addon.namespace, &addon.name);
        let read = optional(agent.cluster_of_addons(addon.hosted).get(&target)).map(|lease| {
            self.available = Some(available(addon, lease.as_ref(), SystemTime::now()));
            Instant::now() + if lease.is_some() { READ_INTERVAL } else { ABSENT_READ_INTERVAL }
        });
        self.lease.set(read, &target, "the Lease of an add-on cannot be read")
    }

    /// Reports `wanted` if it or the add-on changed; returns when the next report is due.
    fn report(&mut self, session: &HubSession, addon: &AddOn, wanted: AddOnStatus) -> Instant {
        let (now, known) = (Instant::now(), self.reported.as_ref());
        // The watch may lag behind the write.
        let is_needed = known.is_none_or(|(status, versions)| {
            *status != wanted || !versions.contains(&addon.version)
        });
        let due = self.pace.due(is_needed, now).unwrap_or(now + Stop::SLICE);
        if due > now {
            return due;
        }
        let target = MANAGED_CLUSTER_ADDONS.object(&session.names.cluster, &addon.name);
        match write(&wanted, &session.client, &target) {
            Ok(version) => {
                let seen = addon.version.clone();
                let written = version.unwrap_or_else(|| seen.clone());
                self.reported = Some((wanted, [seen, written]));
                self.pace.wrote(now);
            }
            Err(error) => {
                let retry = self.pace.failed(&error, now);
                retry.log("", &target, &error, "the status of an add-on is not reported");
            }
        }
        now
    }
}

/// Writes what differs from `wanted`. Returns the version with all of it; `None` if the add-on is absent.
fn write(wanted: &AddOnStatus, client: &Client, target: &Target<'_>) -> Result<Option<String>> {
    let Some(mut object) = optional(client.get(target))? else { return Ok(None) };
    let status = wanted.patch(&object, SystemTime::now());
    if !status.is_empty() {
        object = patch_status(client, target, &object, &status)?;
        log_object!(Level::Info, target; "the status of an add-on is reported");
    }
    Ok(object["metadata"]["resourceVersion"].as_str().map(str::to_owned))
}

fn available(addon: &AddOn, lease: Option<&Value>, now: SystemTime) -> Condition {
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

/// Returns the time of the last renewal, or else of the creation. Upstream's agent crashes without `renewTime`.
fn renewed(lease: &Value) -> Option<SystemTime> {
    let time = |value: &Value| value.as_str().and_then(parse_micro_time);
    time(&lease["spec"]["renewTime"]).or_else(|| time(&lease["metadata"]["creationTimestamp"]))
}

#[cfg(test)]
mod tests;
