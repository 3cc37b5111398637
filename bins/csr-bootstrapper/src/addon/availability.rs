//! Condition Available of add-ons, by the Leases that their agents renew (ocm
//! `pkg/registration/spoke/addon/lease_controller.go`).

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use apiclient::{
    backoff::Backoff, controller, error::Error, log_object, resource::LEASES,
    status_writer::StatusWriter, stop::Stop, time::parse_micro_time,
};
use log::Level;
use serde_json::Value;

use super::{
    SlowClusters, cluster_of,
    managed_cluster_addon::{AVAILABLE, AddOn, AddOnNamespace},
    status::{self, AddOnStatus},
};
use crate::{agent::Agent, conditions::Condition, state::HubSession};

/// As upstream (AddOnLeaseControllerSyncInterval).
const READ_INTERVAL: Duration = Duration::from_secs(30);
/// The same until the Lease is first there.
const FIRST_READ_INTERVAL: Duration = Duration::from_secs(5);
/// A Lease that was not renewed for so long is stale, whatever its own duration says (the same file,
/// leaseDurationTimes and AddOnLeaseControllerLeaseDurationSeconds).
const GRACE_PERIOD: Duration = Duration::from_secs(5 * 60);

/// Keeps the condition Available of each add-on up to date, until the end of the process.
pub(super) fn run(agent: &Agent) {
    while let Some(session) = agent.next_session() {
        let mut controller = LeaseController::new(agent, &session);
        controller::run(&agent.stop, || {
            let (moves, addons) = agent
                .change(|state| (state.addons.settle(Instant::now()), state.addons.by_lease()));
            // In this order: the end of the session also removes the add-ons.
            if session.stop.raised() {
                return None;
            }
            let until = controller.reconcile(&addons);
            Some(moves.map_or(until, |moves| until.min(moves)))
        });
    }
}

/// The state of one session.
struct LeaseController<'a> {
    agent: &'a Agent,
    session: &'a HubSession,
    /// By the add-on's name.
    leases: BTreeMap<String, LeaseReader>,
    writer: StatusWriter<String>,
}

impl<'a> LeaseController<'a> {
    fn new(agent: &'a Agent, session: &'a HubSession) -> Self {
        Self { agent, session, leases: BTreeMap::new(), writer: StatusWriter::default() }
    }

    /// Reads the Leases and writes the conditions that are due; returns when to come again.
    fn reconcile(&mut self, addons: &[(String, Arc<AddOn>)]) -> Instant {
        let is_known = |name: &String| addons.iter().any(|(of, _)| of == name);
        self.leases.retain(|name, _| is_known(name));
        self.writer.retain(is_known);
        let mut until = Instant::now() + Stop::SLICE;
        let mut slow = SlowClusters::default();
        for (name, addon) in addons {
            if self.session.stop.raised() {
                break;
            }
            until = until.min(slow.visit(addon.namespace.hosted, || self.visit(name, addon)));
        }
        until
    }

    fn visit(&mut self, name: &str, addon: &AddOn) -> Instant {
        let reader = self.leases.entry(name.to_owned()).or_insert_with(|| LeaseReader::of(addon));
        if reader.namespace != addon.namespace {
            *reader = LeaseReader::of(addon);
        }
        if Instant::now() >= reader.due {
            reader.read(self.agent, name, addon);
        }
        let (due, condition) = (reader.due, reader.condition.clone());
        condition.map_or(due, |condition| due.min(self.report(name, addon, condition)))
    }

    /// Writes the condition if the hub has another one; returns when to come again.
    fn report(&mut self, name: &str, addon: &AddOn, condition: Condition) -> Instant {
        let (now, differs) = (Instant::now(), addon.available != Some(condition.digest()));
        match self.writer.due(&name.to_owned(), differs) {
            None => now + Stop::SLICE,
            Some(due) if now < due => due,
            Some(_) => {
                let conditions = vec![(AVAILABLE, condition)];
                let status = AddOnStatus { conditions, ..AddOnStatus::default() };
                let hub = (self.agent, self.session);
                status::write(hub, (name, addon), &status, &mut self.writer, "availability");
                now
            }
        }
    }
}

/// The Lease of one add-on, and what it said when it was last read.
struct LeaseReader {
    namespace: AddOnNamespace,
    condition: Option<Condition>,
    was_there: bool,
    due: Instant,
    errors: Backoff,
}

impl LeaseReader {
    fn of(addon: &AddOn) -> Self {
        Self {
            namespace: addon.namespace.clone(),
            condition: None,
            was_there: false,
            due: Instant::now(),
            errors: Backoff::new(READ_INTERVAL),
        }
    }

    /// Reads the Lease. One that cannot be read changes nothing: it may have been renewed.
    fn read(&mut self, agent: &Agent, name: &str, addon: &AddOn) {
        let target = LEASES.object(&addon.namespace.name, name);
        let lease = match cluster_of(agent, &addon.namespace).get(&target) {
            Ok(lease) => Some(renewed(&lease)),
            Err(Error::NotFound(_)) => None,
            Err(error) => {
                let retry = self.errors.failed(&error, Instant::now(), fastrand::f64());
                let level = if retry.should_log { Level::Warn } else { Level::Debug };
                log_object!(level, target, error:% = error; "the Lease of an add-on cannot be read");
                self.due = Instant::now() + retry.wait;
                return;
            }
        };
        self.errors.succeeded();
        self.was_there |= lease.is_some();
        let interval = if self.was_there { READ_INTERVAL } else { FIRST_READ_INTERVAL };
        self.due = Instant::now() + interval;
        self.condition = Some(available(name, addon, lease, SystemTime::now()));
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
