//! Watch of the Leases of one namespace, in which agents of add-ons renew theirs.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use apiclient::{
    error::Result,
    json::Document,
    resource::LEASES,
    watch::{Event, Selection, Watcher},
};

use super::{
    availability::AddOnLease, cluster_of, managed_cluster_addon::AddOnNamespace, start_watches,
};
use crate::agent::{Agent, PAGE};

/// Starts the watch of each namespace that needs one.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(super) fn start_missing(agent: &Arc<Agent>) -> Result<()> {
    start_watches(
        agent,
        "addon-leases",
        |state| state.addons.next_unwatched(),
        |state, namespace| state.addons.unwatch(namespace),
        follow,
    )
}

/// Keeps the Leases of add-ons in the shared state, until no add-on has one there.
fn follow(agent: &Agent, namespace: &AddOnNamespace) {
    let selection = Selection { page: PAGE, ..Selection::all(LEASES.collection(&namespace.name)) };
    let mut listed = BTreeMap::new();
    let client = cluster_of(agent, namespace);
    Watcher::default().run(client, &selection, &agent.stop, &mut |event| {
        match event {
            // Of an add-on that comes later nothing is known after this list.
            Event::Init { .. } => listed = agent.read(|state| state.addons.leases_in(namespace)),
            Event::InitApply(document) => {
                if let Some(known) = listed.get_mut(document.name()) {
                    *known = read(document).unwrap_or(AddOnLease::Renewed(None));
                }
            }
            Event::InitDone => {
                for (name, lease) in std::mem::take(&mut listed) {
                    set(agent, namespace, &name, lease);
                }
            }
            Event::Apply(document) => {
                let name = document.name().to_owned();
                if let Some(lease) = read(document) {
                    set(agent, namespace, &name, lease);
                }
            }
            Event::Delete(document) => set(agent, namespace, document.name(), AddOnLease::Absent),
            Event::Watching | Event::Failed(_) => {}
        }
        match agent.read(|state| state.addons.uses(namespace)) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    agent.update(|state| state.addons.unwatch(namespace));
}

/// `None` for one that is too large: what was known of it stays.
fn read(document: Document) -> Option<AddOnLease> {
    match document {
        Document::Whole(lease) => Some(AddOnLease::of(&lease)),
        Document::TooLarge(_) => None,
    }
}

/// Wakes nobody for the Leases of others, such as those of elections.
fn set(agent: &Agent, namespace: &AddOnNamespace, name: &str, lease: AddOnLease) {
    if agent.change(|state| state.addons.set_lease(namespace, name, lease)) {
        agent.stop.wake();
    }
}
