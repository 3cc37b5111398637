//! Add-ons of this cluster on the hub: whether each is available, by the Lease that its agent renews, and the
//! credentials that the agent needs on the hub.

mod availability;
mod controller;
mod managed_cluster_addon;
mod registration;
mod status;

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use apiclient::{
    client::Client,
    error::Result,
    log_object,
    reflector::{Lookup, Store},
    resource::Resource,
    stop::Stop,
    watch::Selection,
};
use log::Level;
use serde_json::Value;
use sidecar::runtime;

pub(crate) use self::managed_cluster_addon::AddOn;
use self::{managed_cluster_addon::AddOnNamespace, registration::RegistrationStore};
use crate::{
    agent::{Agent, PAGE},
    managedcluster::accepted,
    state::HubSession,
};

/// `addon.open-cluster-management.io/v1alpha1` ManagedClusterAddOn: newer hubs serve it beside v1beta1.
static MANAGED_CLUSTER_ADDONS: Resource = Resource::new(
    "addon.open-cluster-management.io",
    "v1alpha1",
    "managedclusteraddons",
    "ManagedClusterAddOn",
);
/// The most add-ons that are kept: each costs memory, and a hub may list any number.
const MAX_ADDONS: usize = 500;
/// Nor may the texts of all their registrations be longer: a few add-ons could fill the memory, and the store of pending
/// requests, otherwise.
const MAX_TOTAL_LENGTH: usize = 256 << 10;

/// No add-ons yet, with room for as many as are kept.
pub(crate) fn store() -> Store<Arc<AddOn>> {
    Store::new(MAX_ADDONS).weighing_at_most(MAX_TOTAL_LENGTH, |addon| addon.length())
}

/// Starts the watch of add-ons, and a loop for each cluster that their agents run on; the loops share the store.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(crate) fn start(agent: &Arc<Agent>) -> Result<()> {
    runtime::spawn_with("addons", agent, follow)?;
    let store = Arc::new(Mutex::new(RegistrationStore::new(agent)));
    let clusters = match agent.other_spoke() {
        Some(_) => &[("addon-agents", Some(false)), ("addon-hosted", Some(true))][..],
        None => &[("addon-agents", None)],
    };
    for &(thread, hosted) in clusters {
        let (agent, store) = (agent.clone(), store.clone());
        runtime::spawn(thread, move || controller::run(&agent, &store, hosted))?;
    }
    Ok(())
}

/// Keeps the add-ons of each session once the hub has accepted the cluster: before, it grants no right to them.
fn follow(agent: &Agent) {
    while let Some(session) = agent.next_session() {
        apiclient::controller::run(&agent.stop, || {
            let waits = !session.stop.raised() && !is_accepted(&session);
            waits.then(|| Instant::now() + Stop::SLICE)
        });
        let target = MANAGED_CLUSTER_ADDONS.collection(&session.names.cluster);
        let selection = Selection { page: PAGE, ..Selection::all(target) };
        let addons = &session.addons;
        let mut parse = |object: Value| {
            let addon = AddOn::of(&object)?;
            let before = match addons.get(object["metadata"]["name"].as_str()?) {
                Lookup::Object(before) => Some(before),
                Lookup::Unknown | Lookup::Absent | Lookup::Invalid => None,
            };
            Some(Arc::new(addon.following(before.as_deref(), Instant::now())))
        };
        let mut was_partial = false;
        addons.run(&session.client, &selection, &session.stop, &mut parse, &mut || {
            let is_partial = addons.is_partial();
            if is_partial && !was_partial {
                log_object!(
                    Level::Warn, target;
                    "ignoring some add-ons: too many, too large, or in an invalid namespace"
                );
            }
            was_partial = is_partial;
            agent.stop.wake();
        });
    }
}

fn is_accepted(session: &HubSession) -> bool {
    session.managed_cluster().is_some_and(|cluster| accepted(&cluster))
}

/// The cluster that an add-on's agent runs on, with its Lease and its Secrets.
fn cluster_of<'a>(agent: &'a Agent, namespace: &AddOnNamespace) -> &'a Client {
    if namespace.hosted { &agent.management } else { agent.spoke() }
}
