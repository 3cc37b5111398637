//! Watch of the Secrets of one namespace, without their content: those of add-ons must not be lost unseen.

use std::{ops::ControlFlow, sync::Arc};

use apiclient::{
    error::Result,
    json::Document,
    resource::SECRETS,
    watch::{Event, Selection, Watcher},
};
use sidecar::runtime;

use super::{
    cluster_of, managed_cluster_addon::AddOnNamespace, registration::RegistrationSecret,
    secret_cache::SecretVersion,
};
use crate::agent::{Agent, PAGE};

/// Starts the watch of each namespace that needs one.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(super) fn start_missing(agent: &Arc<Agent>) -> Result<()> {
    // Without a wake: the loop that calls this would wake itself.
    while let Some(namespace) = agent.change(|state| state.addon_secrets.next_unwatched()) {
        let (shared, of) = (agent.clone(), namespace.clone());
        let started = runtime::spawn("addon-secrets", move || follow(&shared, &of));
        if started.is_err() {
            agent.change(|state| state.addon_secrets.unwatch(&namespace));
        }
        started?;
    }
    Ok(())
}

/// Keeps the versions of the kept Secrets in the shared state, until none is kept there.
fn follow(agent: &Agent, namespace: &AddOnNamespace) {
    let all = Selection::all(SECRETS.collection(&namespace.name));
    let selection = Selection { page: PAGE, metadata_only: true, ..all };
    let mut listed = Vec::new();
    let client = cluster_of(agent, namespace);
    Watcher::default().run(client, &selection, &agent.stop, &mut |event| {
        match event {
            // Of a Secret that is kept from later on nothing is known after this list.
            Event::Init { .. } => {
                listed = agent.read(|state| state.addon_secrets.listed(namespace));
            }
            Event::InitApply(document) => {
                let name = document.name();
                let known = listed.iter_mut().find(|(known, _)| known == name);
                known.into_iter().for_each(|(_, known)| *known = version(&document));
            }
            Event::InitDone => {
                for (name, version) in std::mem::take(&mut listed) {
                    set(agent, namespace, name, version);
                }
            }
            Event::Apply(document) => {
                set(agent, namespace, document.name().to_owned(), version(&document));
            }
            Event::Delete(document) => {
                set(agent, namespace, document.name().to_owned(), SecretVersion::Absent);
            }
            Event::Watching => {
                agent.change(|state| state.addon_secrets.set_open(namespace, true));
            }
            Event::Failed(_) => {
                agent.change(|state| state.addon_secrets.set_open(namespace, false));
            }
        }
        match agent.read(|state| state.addon_secrets.uses(namespace)) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    agent.update(|state| state.addon_secrets.unwatch(namespace));
}

fn version(document: &Document) -> SecretVersion {
    SecretVersion::At(document.version().to_owned())
}

/// Wakes nobody for the Secrets of others.
fn set(agent: &Agent, namespace: &AddOnNamespace, name: String, version: SecretVersion) {
    let secret = RegistrationSecret { namespace: namespace.clone(), name };
    if agent.change(|state| state.addon_secrets.set(&secret, version)) {
        agent.stop.wake();
    }
}
