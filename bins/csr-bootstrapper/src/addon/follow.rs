//! Watch of the cluster's ManagedClusterAddOns on the hub.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc, time::Instant};

use log::Level;
use shared::{
    json::Document,
    log_object, runtime,
    stop::Stop,
    watch::{Event, Selection, Watcher},
};

use super::{MANAGED_CLUSTER_ADDONS, availability::AddOn, cache::MOST_ADDONS, lease_controller};
use crate::{
    agent::{Agent, PAGE},
    identity::AgentNames,
    managedcluster::accepted,
    state::HubSession,
};

/// Keeps the add-ons in the shared state, in each session and while the hub accepts the cluster: before, it grants
/// no right to them.
pub(crate) fn follow(agent: &Arc<Agent>) {
    let mut controller = false;
    while let Some(session) = agent.next_session() {
        let Some(names) = wait_until_accepted(agent, &session) else { continue };
        let target = MANAGED_CLUSTER_ADDONS.collection(&names.cluster);
        let selection = Selection { page: PAGE, ..Selection::all(target) };
        let (mut listed, mut too_many) = (BTreeMap::new(), false);
        Watcher::default().run(&session.client, &selection, &session.stop, &mut |event| {
            let more = take(agent, &names.cluster, &mut listed, event);
            // Most clusters without add-ons never have one: its thread begins with the first.
            if !controller && agent.read(|state| state.addons.any()) {
                controller = start_controller(agent);
            }
            if more && !std::mem::replace(&mut too_many, true) {
                log_object!(Level::Warn, target; "too many add-ons: some are left alone");
            }
            match is_accepted(agent) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        agent.errors.addons.set(None);
        agent.update(|state| state.addons.replace_addons(BTreeMap::new()));
    }
}

/// Takes an event into the shared state; returns whether there are too many add-ons.
fn take(
    agent: &Agent,
    namespace: &str,
    listed: &mut BTreeMap<String, AddOn>,
    event: Event<'_>,
) -> bool {
    match event {
        Event::Init { .. } => listed.clear(),
        Event::InitApply(document) => {
            let (name, addon) = read(namespace, document);
            // One more than may be is enough to know that.
            let has_room = listed.len() <= MOST_ADDONS;
            listed.extend(addon.filter(|_| has_room).map(|addon| (name, addon)));
        }
        Event::InitDone => {
            let all = std::mem::take(listed);
            return agent.update(|state| state.addons.replace_addons(all));
        }
        Event::Apply(document) => {
            let (name, addon) = read(namespace, document);
            return agent.update(|state| state.addons.set_addon(&name, addon));
        }
        Event::Delete(document) => {
            return agent.update(|state| state.addons.set_addon(document.name(), None));
        }
        Event::Watching => agent.errors.addons.set(None),
        Event::Failed(error) => agent.errors.addons.set(Some(error)),
    }
    false
}

/// Starts the loop that reports the add-ons' availability; `false` if the system gives no thread.
fn start_controller(agent: &Arc<Agent>) -> bool {
    let agent = agent.clone();
    let started = runtime::spawn("addon-health", move || lease_controller::run(&agent));
    if let Err(error) = &started {
        log::warn!(error:% = error; "the availability of add-ons is not reported");
    }
    started.is_ok()
}

/// Waits until the hub accepts the cluster of these names; `None` at the end of the session.
fn wait_until_accepted(agent: &Agent, session: &HubSession) -> Option<AgentNames> {
    loop {
        let seen = agent.stop.wakes();
        if session.stop.raised() {
            return None;
        }
        let names = agent.read(|state| state.names.clone());
        if let Some(names) = names.filter(|_| is_accepted(agent)) {
            return Some(names);
        }
        agent.stop.wait_for_change(seen, Instant::now() + Stop::SLICE);
    }
}

fn is_accepted(agent: &Agent) -> bool {
    agent.read(|state| state.managed_cluster().is_some_and(accepted))
}

/// The add-on in a document, with its name; none if it cannot be read as one.
fn read(namespace: &str, document: Document) -> (String, Option<AddOn>) {
    let name = document.name().to_owned();
    let addon = match document {
        Document::Whole(object) => AddOn::of(&object),
        Document::TooLarge(_) => None,
    };
    if addon.is_none() {
        log_object!(
            Level::Warn, MANAGED_CLUSTER_ADDONS.object(namespace, &name);
            "the add-on is too large or has an invalid namespace: its availability is not reported"
        );
    }
    (name, addon)
}
