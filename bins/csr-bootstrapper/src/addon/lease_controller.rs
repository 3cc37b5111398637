//! Loop that tells the hub whether each add-on is available. In the steady state nothing is written: renewals of
//! Leases come by their watches.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Instant, SystemTime},
};

use apiclient::{controller, error::Error, log_object, resource::LEASES, stop::Stop};
use log::Level;

use super::{
    SlowClusters,
    availability::AddOnLease,
    cluster_of,
    lease_watch::start_missing,
    managed_cluster_addon::{AVAILABLE, AddOn},
    status::{self, AddOnStatus},
};
use crate::{
    agent::Agent,
    conditions::Condition,
    state::HubSession,
    status_writer::{StatusWriter, WritePace},
};

/// Keeps the condition Available of each add-on up to date, until the end of the process.
pub(super) fn run(agent: &Arc<Agent>) {
    while let Some(session) = agent.next_session() {
        let mut controller = LeaseController::new(agent, &session);
        controller::run(&agent.stop, || {
            if let Err(error) = start_missing(agent) {
                log::warn!(error:% = error; "the Leases of an add-on are not watched");
            }
            let (moves, addons) = agent
                .change(|state| (state.addons.settle(Instant::now()), state.addons.with_leases()));
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
    /// Reads of Leases, and writes of conditions, by the add-on's name.
    reads: BTreeMap<String, WritePace>,
    writer: StatusWriter<String>,
}

impl<'a> LeaseController<'a> {
    fn new(agent: &'a Agent, session: &'a HubSession) -> Self {
        Self { agent, session, reads: BTreeMap::new(), writer: StatusWriter::default() }
    }

    /// Performs what is due; returns when to come again if nothing changes.
    fn reconcile(&mut self, addons: &[(String, Arc<AddOn>, Option<AddOnLease>)]) -> Instant {
        let is_known = |name: &String| addons.iter().any(|(of, ..)| of == name);
        self.reads.retain(|name, _| is_known(name));
        self.writer.retain(is_known);
        let mut until = Instant::now() + Stop::SLICE;
        let mut slow = SlowClusters::default();
        for (name, addon, lease) in addons {
            if self.session.stop.raised() {
                break;
            }
            until = until.min(slow.visit(addon.namespace.hosted, || match lease {
                None => self.take_lease(name, addon),
                Some(lease) => self.update(name, addon, *lease),
            }));
        }
        until
    }

    /// Takes a Lease that no watch has brought yet.
    fn take_lease(&mut self, name: &str, addon: &AddOn) -> Instant {
        match self.read_lease(name, addon) {
            Err(due) => due,
            Ok(lease) => {
                let namespace = &addon.namespace;
                self.agent.update(|state| state.addons.set_unknown_lease(namespace, name, lease));
                Instant::now()
            }
        }
    }

    /// Reads a Lease from its server, or returns when that may be tried again.
    fn read_lease(
        &mut self,
        name: &str,
        addon: &AddOn,
    ) -> std::result::Result<AddOnLease, Instant> {
        let pace = self.reads.entry(name.to_owned()).or_default();
        if Instant::now() < pace.not_before {
            return Err(pace.not_before);
        }
        let target = LEASES.object(&addon.namespace.name, name);
        let lease = match cluster_of(self.agent, &addon.namespace).get(&target) {
            Ok(lease) => AddOnLease::of(&lease),
            Err(Error::NotFound(_)) => AddOnLease::Absent,
            Err(error) => {
                let level = level(pace.failed(&error, Instant::now()));
                log_object!(level, target, error:% = error; "the Lease of an add-on cannot be read");
                return Err(pace.not_before);
            }
        };
        // Reads are only kept a moment apart.
        pace.needed(false, Instant::now());
        pace.wrote(Instant::now());
        Ok(lease)
    }

    /// Writes the condition if the hub has another one.
    fn update(&mut self, name: &str, addon: &AddOn, lease: AddOnLease) -> Instant {
        let (now, wall) = (Instant::now(), SystemTime::now());
        let (wanted, stale) = addon.by_lease(name, lease, wall);
        let differs = addon.available != Some(wanted.digest());
        let due = self.writer.due(&name.to_owned(), differs);
        let Some(due) = due else {
            // A later time than any that the loop waits for need not be exact.
            let left = stale.and_then(|stale| stale.duration_since(wall).ok());
            return now + left.map_or(Stop::SLICE, |left| left.min(Stop::SLICE));
        };
        if now < due {
            return due;
        }
        // A watch that brings nothing, as without the way to the server, makes no Lease stale.
        if stale.is_none() && lease != AddOnLease::Absent {
            match self.read_lease(name, addon) {
                Err(due) => return due,
                Ok(newer) if newer != lease => {
                    self.agent
                        .update(|state| state.addons.set_lease(&addon.namespace, name, newer));
                    return now;
                }
                Ok(_) => {}
            }
        }
        self.write(name, addon, &wanted);
        Instant::now()
    }

    fn write(&mut self, name: &str, addon: &AddOn, wanted: &Condition) {
        let status =
            AddOnStatus { conditions: vec![(AVAILABLE, wanted.clone())], ..AddOnStatus::default() };
        let hub = (self.agent, self.session);
        status::write(hub, (name, addon), &status, &mut self.writer, "availability");
    }
}

fn level(should_log: bool) -> Level {
    if should_log { Level::Warn } else { Level::Debug }
}
