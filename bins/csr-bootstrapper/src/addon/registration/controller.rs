//! Loop that keeps the credentials of all add-ons: starts what is wanted, ends what is not, and tells the hub.

use std::{sync::Arc, time::Instant};

use apiclient::{backoff::Backoff, log_object, status_writer::WritePace, stop::Stop};
use log::Level;

use super::{
    Context, LONGEST_WAIT, Registration, RegistrationSecret, RegistrationStore,
    entry::Entry,
    plan::{Plan, PlanInputs, plan},
    secret,
    status::{StatusReporter, Told},
};
use crate::{
    addon::{SlowClusters, cache::KnownAddOns, secret_watch::start_missing},
    agent::Agent,
    certificate::csr_watch::CsrWatch,
    state::HubSession,
};

/// Keeps the credentials of add-ons, until the end of the process.
pub(in crate::addon) fn run(agent: &Arc<Agent>) {
    while let Some(session) = agent.next_session() {
        let Some(store) = prepare(agent, &session) else { continue };
        let mut controller = RegistrationController::new(agent, &session, store);
        let mut addons = KnownAddOns::default();
        apiclient::controller::run(&agent.stop, || {
            if let Err(error) = start_missing(agent) {
                log::warn!(error:% = error; "the Secrets of add-ons are not watched");
            }
            let (moves, newer) = agent
                .change(|state| (state.addons.settle(Instant::now()), state.addons.since(&addons)));
            // In this order: the end of the session also forgets the add-ons.
            if session.stop.raised() {
                return None;
            }
            let is_newer = newer.is_some();
            if let Some(newer) = newer {
                addons = newer;
            }
            if controller.refresh_store() || is_newer {
                controller.plan(&addons);
            }
            let until = controller.reconcile(&addons);
            Some(moves.map_or(until, |moves| until.min(moves)))
        });
    }
}

/// Reads the store; `None` at the end of the session.
fn prepare(agent: &Agent, session: &HubSession) -> Option<RegistrationStore> {
    let mut backoff = Backoff::new(LONGEST_WAIT);
    loop {
        let error = match RegistrationStore::load(agent) {
            Ok(store) => return Some(store),
            Err(error) => error,
        };
        let retry = backoff.failed(&error, Instant::now(), fastrand::f64());
        let level = if retry.should_log { Level::Warn } else { Level::Debug };
        log::log!(level, error:% = error; "the registrations of add-ons cannot be read");
        if session.stop.wait(retry.wait) {
            return None;
        }
    }
}

/// The state of one session.
struct RegistrationController<'a> {
    agent: &'a Agent,
    session: &'a HubSession,
    store: RegistrationStore,
    csrs: CsrWatch,
    /// In the order of the add-ons' names.
    entries: Vec<Entry>,
    /// The Secrets to remove, with the pace of the attempts.
    obsolete: Vec<(RegistrationSecret, WritePace)>,
    reporter: StatusReporter<'a>,
    /// The pace of reads of the store.
    store_pace: WritePace,
    /// There were more registrations than may be.
    too_many: bool,
}

impl<'a> RegistrationController<'a> {
    fn new(agent: &'a Agent, session: &'a HubSession, store: RegistrationStore) -> Self {
        Self {
            agent,
            session,
            store,
            csrs: CsrWatch::default(),
            entries: Vec::new(),
            obsolete: Vec::new(),
            reporter: StatusReporter::new(agent, session),
            store_pace: WritePace::new(Instant::now()),
            too_many: false,
        }
    }

    /// Reads the store again if it may be another one; returns whether that was done.
    fn refresh_store(&mut self) -> bool {
        let now = Instant::now();
        if !self.store.is_stale() || now < self.store_pace.not_before {
            return false;
        }
        match self.store.reload() {
            Ok(()) => drop(self.store_pace.wrote(now)),
            Err(error) => {
                let level = self.store_pace.failed(&error, now);
                log::log!(level, error:% = error; "the registrations of add-ons cannot be read");
                return false;
            }
        }
        self.store_pace.needed(false, now);
        true
    }

    /// Takes other add-ons into account.
    fn plan(&mut self, addons: &KnownAddOns) {
        let now = Instant::now();
        let Plan { wanted, too_many, obsolete } = plan(&PlanInputs {
            addons,
            stored: self.store.all(),
            names: &self.session.names,
            driver: self.agent.settings.addon_driver,
            apart: self.agent.other_spoke().is_some(),
        });
        if too_many && !std::mem::replace(&mut self.too_many, true) {
            log::warn!("add-ons have too many registrations: some are left alone");
        }
        self.agent.change(|state| state.addon_secrets.keep(wanted.iter().map(|one| &one.secret)));
        self.obsolete.retain(|(secret, _)| obsolete.contains(secret));
        for secret in obsolete {
            if !self.obsolete.iter().any(|(known, _)| *known == secret) {
                self.obsolete.push((secret, WritePace::new(now)));
            }
        }
        let mut before = std::mem::take(&mut self.entries);
        for registration in wanted {
            let known = before.iter().position(|entry| entry.is_of(&registration.secret));
            let known = known.map(|index| before.swap_remove(index));
            let entry = self.start(registration, known, now);
            self.entries.push(entry);
        }
        let mut context = self.context();
        before.iter_mut().for_each(|entry| entry.close(&mut context));
    }

    /// Starts a registration, or continues with what changed in a `known` one.
    fn start(&mut self, registration: Registration, known: Option<Entry>, now: Instant) -> Entry {
        let new = || Entry::new(registration.clone(), &self.store);
        let mut entry = known.unwrap_or_else(new);
        if entry.registration != registration {
            entry.change(&registration, &mut self.context());
        }
        entry.again = now;
        entry
    }

    fn context(&mut self) -> Context<'_> {
        Context {
            agent: self.agent,
            session: self.session,
            names: &self.session.names,
            store: &mut self.store,
            csrs: &mut self.csrs,
        }
    }

    /// Performs what is due; returns when to come again if nothing changes.
    fn reconcile(&mut self, addons: &KnownAddOns) -> Instant {
        let mut until = Instant::now() + Stop::SLICE;
        if self.store.is_stale() {
            until = until.min(self.store_pace.not_before);
        }
        let mut slow = SlowClusters::default();
        for index in (0..self.obsolete.len()).rev() {
            let hosted = self.obsolete[index].0.namespace.hosted;
            until = until.min(slow.visit(hosted, || self.remove(index)));
        }
        let mut entries = std::mem::take(&mut self.entries);
        for entry in &mut entries {
            if self.session.stop.raised() {
                break;
            }
            let Some(addon) = addons.by_name.get(&entry.registration.addon) else { continue };
            if entry.is_due(self.agent) {
                let hosted = entry.registration.secret.namespace.hosted;
                entry.again = slow.visit(hosted, || entry.reconcile(addon, &mut self.context()));
            }
            until = until.min(entry.again);
        }
        self.entries = entries;
        until.min(self.report(addons))
    }

    /// Tells the hub about each add-on; returns when to come again.
    fn report(&mut self, addons: &KnownAddOns) -> Instant {
        let mut until = Instant::now() + Stop::SLICE;
        self.reporter.keep(|name| addons.by_name.contains_key(name));
        let mut entries = self.entries.iter().peekable();
        for (name, addon) in &addons.by_name {
            let mut told: Vec<Told> = Vec::new();
            while let Some(entry) = entries.next_if(|entry| entry.registration.addon == *name) {
                told.extend(entry.condition());
            }
            if addon.terminating || self.session.stop.raised() {
                continue;
            }
            until = until.min(self.reporter.report((name, addon), &self.session.names, told));
        }
        until
    }

    /// Removes a Secret that no add-on needs any more; returns when to try again.
    fn remove(&mut self, index: usize) -> Instant {
        let now = Instant::now();
        let (secret, pace) = &mut self.obsolete[index];
        if now < pace.not_before {
            return pace.not_before;
        }
        let target = secret.target();
        let removed =
            secret::delete(self.agent, secret, &self.session.names.cluster).and_then(|ours| {
                match ours {
                    true => {
                        log_object!(Level::Info, target; "the credential of an add-on was deleted")
                    }
                    false => log_object!(
                        Level::Warn, target;
                        "the Secret is left: it is no credential of this cluster any more"
                    ),
                }
                self.store.remove(secret)
            });
        match removed {
            Ok(()) => {
                self.obsolete.remove(index);
                now
            }
            Err(error) => {
                let level = pace.failed(&error, now);
                log_object!(level, target, error:% = error; "the credential of an add-on is not deleted");
                pace.not_before
            }
        }
    }
}
