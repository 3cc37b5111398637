//! Add-ons of this cluster on the hub: whether each is available, by the Lease that its agent renews, and the
//! credentials that the agent needs on the hub.

mod availability;
mod cache;
mod follow;
mod managed_cluster_addon;
mod registration;
mod secret_cache;
mod secret_watch;
mod status;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::{client::Client, error::Result, resource::Resource};
use sidecar::runtime;

use self::managed_cluster_addon::AddOnNamespace;
pub(crate) use self::{cache::AddOns, secret_cache::AddOnSecrets};
use crate::agent::Agent;

/// `addon.open-cluster-management.io/v1alpha1` ManagedClusterAddOn: newer hubs serve it beside v1beta1.
static MANAGED_CLUSTER_ADDONS: Resource = Resource::new(
    "addon.open-cluster-management.io",
    "v1alpha1",
    "managedclusteraddons",
    "ManagedClusterAddOn",
);

/// Starts the watch of add-ons, and the loops for their availability and their credentials.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(crate) fn start(agent: &Arc<Agent>) -> Result<()> {
    runtime::spawn_with("addons", agent, follow::follow)?;
    runtime::spawn_with("addon-health", agent, availability::run)?;
    let agent = agent.clone();
    runtime::spawn("addon-registration", move || registration::run(&agent))
}

/// The cluster that an add-on's agent runs on, with its Lease and its Secrets.
fn cluster_of<'a>(agent: &'a Agent, namespace: &AddOnNamespace) -> &'a Client {
    if namespace.hosted { &agent.management } else { agent.spoke() }
}

/// A visit that takes longer than this was to a server that hardly answers, if at all.
const SLOW: Duration = Duration::from_secs(1);

/// Clusters that were slow in this pass; their remaining add-ons wait for the next one.
#[derive(Default)]
struct SlowClusters {
    spoke: bool,
    management: bool,
}

impl SlowClusters {
    /// Calls `visit`, which returns when to come again, if the cluster of a `hosted` add-on or of another one is not slow;
    /// returns when to come again.
    fn visit(&mut self, hosted: bool, visit: impl FnOnce() -> Instant) -> Instant {
        let is_slow = if hosted { &mut self.management } else { &mut self.spoke };
        let begun = Instant::now();
        if *is_slow {
            return begun;
        }
        let again = visit();
        *is_slow = begun.elapsed() > SLOW;
        again
    }
}
