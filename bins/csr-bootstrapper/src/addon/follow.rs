//! Watch of the cluster's ManagedClusterAddOns on the hub.

use std::{ops::ControlFlow, time::Instant};

use apiclient::{
    json::Document,
    log_object,
    stop::Stop,
    watch::{Event, Selection, Watcher},
};
use log::Level;

use super::{
    MANAGED_CLUSTER_ADDONS,
    cache::{AddOns, MAX_ADDONS, leave_longest},
    managed_cluster_addon::AddOn,
};
use crate::{
    agent::{Agent, PAGE},
    managedcluster::accepted,
    state::HubSession,
};

/// Keeps the add-ons in the shared state, in each session and while the hub accepts the cluster: before, it grants
/// no right to them.
pub(super) fn follow(agent: &Agent) {
    let mut too_many = false;
    while let Some(session) = agent.next_session() {
        if !wait_until_accepted(agent, &session) {
            continue;
        }
        let cluster = &session.names.cluster;
        let target = MANAGED_CLUSTER_ADDONS.collection(cluster);
        let selection = Selection { page: PAGE, ..Selection::all(target) };
        let (mut listed, mut list_again) = (Vec::new(), false);
        Watcher::default().run(&session.client, &selection, &session.stop, &mut |event| {
            let more = take((agent, &session), cluster, &mut listed, event);
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
            let has_room = listed.len() <= MAX_ADDONS;
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
