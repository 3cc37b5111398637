//! Add-ons of this cluster on the hub: their availability, by their Leases, and their credentials.

mod context;
pub(crate) mod managed_cluster_addon;
mod secret;
mod status;
mod token;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use apiclient::{controller, error::Result, reflector::Lookup, stop::Stop, watch::Selection};
use serde_json::Value;
use sidecar::runtime;

use self::{
    context::SecretContext,
    managed_cluster_addon::{AddOn, MANAGED_CLUSTER_ADDONS, Registration, RegistrationSecret},
    secret::SecretController,
    status::AddOnReporter,
};
use crate::{
    agent::Agent, certificate::io::RequestStore, conditions::accepted, pacing::Pace,
    state::HubSession,
};

type AddOns = BTreeMap<String, Arc<AddOn>>;

/// Starts the watch of add-ons, and a loop for each cluster on which their agents run: neither waits for the other.
pub(crate) fn start(agent: &Arc<Agent>) -> Result<()> {
    runtime::spawn_with("addons", agent, follow)?;
    runtime::spawn_with("addon-agents", agent, |agent| run(agent, false))?;
    match &agent.other_spoke {
        Some(_) => runtime::spawn_with("addon-hosted", agent, |agent| run(agent, true)),
        None => Ok(()),
    }
}

/// Keeps the add-ons of each session once the hub has accepted the cluster: before, the agent may not read them.
fn follow(agent: &Agent) {
    let apart = agent.other_spoke.is_some();
    while let Some(session) = agent.next_session() {
        controller::run(&agent.stop, || {
            let waits = !session.stop.raised() && !is_accepted(&session);
            waits.then(|| Instant::now() + Stop::SLICE)
        });
        let selection = Selection::all(MANAGED_CLUSTER_ADDONS.collection(&session.names.cluster));
        let settings = (&session.names, agent.settings.addon_driver);
        let mut parse = |object: Value| AddOn::of(&object, apart, settings).map(Arc::new);
        let (client, stop) = (&session.client, &session.stop);
        session.addons.run(client, &selection, stop, &mut parse, &mut || agent.stop.wake());
    }
}

fn run(agent: &Agent, hosted: bool) {
    let mut registrations = agent.request_store();
    while let Some(session) = agent.next_session() {
        let mut controller = AddOnController {
            agent,
            session: &session,
            hosted,
            registrations: &mut registrations,
            store_due: Pace::default(),
            secrets: BTreeMap::new(),
            reporters: BTreeMap::new(),
        };
        controller::run(&agent.stop, || (!session.stop.raised()).then(|| controller.reconcile()));
    }
}

struct AddOnController<'a> {
    agent: &'a Agent,
    session: &'a HubSession,
    hosted: bool,
    registrations: &'a mut RequestStore,
    store_due: Pace,
    secrets: BTreeMap<RegistrationSecret, SecretController>,
    /// By name and namespace of the add-on.
    reporters: BTreeMap<(String, String), AddOnReporter>,
}

impl AddOnController<'_> {
    fn reconcile(&mut self) -> Instant {
        let session = self.session;
        let later = Instant::now() + Stop::SLICE;
        if !is_accepted(session) {
            return later;
        }
        let addons = session.addons.read(|all| {
            let readable = all.iter().filter_map(|(name, it)| Some((name.clone(), it.clone()?)));
            readable.collect::<AddOns>()
        });
        let Some(addons) = addons else { return later };
        self.keep_secrets(&addons).min(self.report(&addons))
    }

    /// Compares the desired credentials with the stored ones, and takes the steps that are due.
    fn keep_secrets(&mut self, addons: &AddOns) -> Instant {
        let Self { agent, session, hosted, .. } = *self;
        if Instant::now() < self.store_due.at {
            return self.store_due.at;
        }
        let stored = self.registrations.read().map(context::all);
        let read = stored.as_ref().map(|_| Instant::now()).map_err(Clone::clone);
        let what = "the registrations of add-ons cannot be read";
        let until = self.store_due.set(read, &self.registrations.target(), what);
        let Ok(stored) = stored else { return until };
        let is_gone = |name: &str| session.addons.get(name) == Lookup::Absent;
        let mut desired = desired(addons, &stored, is_gone);
        desired.retain(|secret, _| secret.hosted == hosted);
        self.secrets.retain(|secret, _| desired.contains_key(secret));
        let mut until = Instant::now() + Stop::SLICE;
        for (secret, registration) in desired {
            if session.stop.raised() {
                break;
            }
            let controller = self.secrets.entry(secret.clone()).or_default();
            let registrations = &mut *self.registrations;
            let context = SecretContext { agent, session, registrations, name: &secret };
            until = until.min(controller.reconcile(registration, context));
        }
        until
    }

    fn report(&mut self, addons: &AddOns) -> Instant {
        let Self { agent, session, hosted, .. } = *self;
        let is_mine = |addon: &AddOn| addon.hosted == hosted;
        self.reporters.retain(|(name, namespace), _| {
            addons.get(name).is_some_and(|addon| is_mine(addon) && addon.namespace == *namespace)
        });
        let mut until = Instant::now() + Stop::SLICE;
        for addon in addons.values().filter(|addon| is_mine(addon)) {
            if session.stop.raised() {
                break;
            }
            let key = (addon.name.clone(), addon.namespace.clone());
            let credentials = self.secrets.values().filter_map(|it| it.condition(&addon.name));
            let reporter = self.reporters.entry(key).or_default();
            until = until.min(reporter.reconcile(agent, session, addon, credentials));
        }
        until
    }
}

/// Returns the desired registrations of all `addons` by their Secrets. `stored` has each kept Secret with its add-on.
/// `None` deletes a Secret: its add-on certainly `is_gone` from the hub, or no longer names the Secret.
fn desired(
    addons: &AddOns,
    stored: &BTreeMap<RegistrationSecret, String>,
    is_gone: impl Fn(&str) -> bool,
) -> BTreeMap<RegistrationSecret, Option<Arc<Registration>>> {
    let mut desired = BTreeMap::new();
    for addon in addons.values() {
        for (secret, registration) in &addon.registrations {
            // An add-on that is being deleted gets no new credential, but its agent may still need the old ones.
            if !addon.terminating || stored.contains_key(secret) {
                // Of two registrations for one Secret, the first wins.
                desired.entry(secret.clone()).or_insert_with(|| Some(registration.clone()));
            }
        }
    }
    for (secret, name) in stored {
        let is_obsolete = addons.get(name).map_or_else(|| is_gone(name), |it| !it.terminating);
        if is_obsolete {
            desired.entry(secret.clone()).or_insert(None);
        }
    }
    desired
}

fn is_accepted(session: &HubSession) -> bool {
    session.managed_cluster().is_some_and(|cluster| accepted(&cluster))
}

#[cfg(test)]
mod tests;
