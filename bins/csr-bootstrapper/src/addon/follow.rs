//! Watch of the cluster's ManagedClusterAddOns on the hub.

use std::{ops::ControlFlow, sync::Arc, time::Instant};

use apiclient::{
    json::Document,
    log_object,
    stop::Stop,
    watch::{Event, Selection, Watcher},
};
use log::Level;
use sidecar::runtime;

use super::{
    MANAGED_CLUSTER_ADDONS, availability,
    cache::{AddOns, MOST_ADDONS, leave_longest},
    managed_cluster_addon::AddOn,
    registration::{self, RegistrationStore},
};
use crate::{
    agent::{Agent, PAGE},
    managedcluster::accepted,
    state::HubSession,
};

/// Keeps the add-ons in the shared state, in each session and while the hub accepts the cluster: before, it grants
/// no right to them.
pub(crate) fn follow(agent: &Arc<Agent>) {
    let (mut controllers, mut too_many) = (Controllers::default(), false);
    while let Some(session) = agent.next_session() {
        if !wait_until_accepted(agent, &session) {
            continue;
        }
        let cluster = &session.names.cluster;
        let target = MANAGED_CLUSTER_ADDONS.collection(cluster);
        let selection = Selection { page: PAGE, ..Selection::all(target) };
        let (mut listed, mut list_again) = (Vec::new(), false);
        Watcher::default().run(&session.client, &selection, &session.stop, &mut |event| {
            let is_list = matches!(event, Event::InitDone);
            let more = take((agent, &session), cluster, &mut listed, event);
            controllers.start(agent, is_list);
            if more && !std::mem::replace(&mut too_many, true) {
                log_object!(Level::Warn, target; "too many add-ons: some are left alone");
            }
            let accepted = is_accepted(&session);
            list_again = accepted && agent.change(|state| state.addons.wants_list());
            match accepted && !list_again {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        // What is known stays until the next list.
        if list_again && !session.stop.raised() {
            continue;
        }
        agent.errors.addons.set(None);
        agent.update(|state| state.addons.clear());
    }
}

/// Takes an event into the shared state; returns whether there are too many add-ons.
fn take(
    (agent, session): (&Agent, &HubSession),
    namespace: &str,
    listed: &mut Vec<(String, Option<AddOn>)>,
    event: Event<'_>,
) -> bool {
    match event {
        Event::Init { .. } => listed.clear(),
        Event::InitApply(document) => {
            let (name, addon) = read(namespace, document);
            // One more than may be is enough to know that.
            let has_room = listed.len() <= MOST_ADDONS;
            listed.extend(has_room.then_some((name, addon)));
            leave_longest(listed);
        }
        Event::InitDone => {
            let all = std::mem::take(listed);
            let replace = |addons: &mut AddOns| addons.replace_addons(all);
            return agent.update(|state| state.addons_of(session).is_some_and(replace));
        }
        Event::Apply(document) => {
            let (name, addon) = read(namespace, document);
            let set = |addons: &mut AddOns| addons.set_addon(&name, addon);
            return agent.update(|state| state.addons_of(session).is_some_and(set));
        }
        Event::Delete(document) => {
            let remove = |addons: &mut AddOns| addons.remove_addon(document.name());
            agent.update(|state| state.addons_of(session).map_or((), remove));
        }
        Event::Watching => agent.errors.addons.set(None),
        Event::Failed(error) => agent.errors.addons.set(Some(error)),
    }
    false
}

/// The loops that work for add-ons. Most clusters without add-ons never have one: a thread begins with the first that
/// needs it.
#[derive(Default)]
struct Controllers {
    health: bool,
    registration: bool,
    /// It is known whether an earlier process left registrations behind.
    looked: bool,
}

impl Controllers {
    /// Starts the loops that are needed by now; after a complete list also for what an earlier process left.
    fn start(&mut self, agent: &Arc<Agent>, is_list: bool) {
        if !self.health && agent.read(|state| state.addons.any()) {
            self.health = start("addon-health", agent, availability::run);
        }
        if !self.registration {
            let any = agent.read(|state| state.addons.any_registered());
            if any || (is_list && !std::mem::replace(&mut self.looked, true) && left_behind(agent))
            {
                self.registration = start("addon-registration", agent, registration::run);
            }
        }
    }
}

/// Returns whether an earlier process may have left registrations of add-ons that are gone.
fn left_behind(agent: &Agent) -> bool {
    RegistrationStore::load(agent).map_or(true, |store| !store.is_empty())
}

/// Starts a loop for add-ons; `false` if the system gives no thread.
fn start(name: &'static str, agent: &Arc<Agent>, run: fn(&Arc<Agent>)) -> bool {
    let agent = agent.clone();
    let started = runtime::spawn(name, move || run(&agent));
    if let Err(error) = &started {
        log::warn!(error:% = error; "add-ons are left alone");
    }
    started.is_ok()
}

/// Waits until the hub accepts the cluster; `false` at the end of the session.
fn wait_until_accepted(agent: &Agent, session: &HubSession) -> bool {
    loop {
        let seen = agent.stop.wakes();
        if session.stop.raised() {
            return false;
        }
        if is_accepted(session) {
            return true;
        }
        agent.stop.wait_for_change(seen, Instant::now() + Stop::SLICE);
    }
}

fn is_accepted(session: &HubSession) -> bool {
    session.managed_cluster().is_some_and(|cluster| accepted(&cluster))
}

/// The add-on in a document, with its name; `None` if it cannot be read as one.
fn read(namespace: &str, document: Document) -> (String, Option<AddOn>) {
    let name = document.name().to_owned();
    let addon = match document {
        Document::Whole(object) => AddOn::of(&object),
        Document::TooLarge(_) => None,
    };
    if addon.is_none() {
        log_object!(
            Level::Warn, MANAGED_CLUSTER_ADDONS.object(namespace, &name);
            "the add-on is too large or has an invalid namespace: it is left alone"
        );
    }
    (name, addon)
}
