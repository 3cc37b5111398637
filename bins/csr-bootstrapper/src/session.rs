//! Session with a hub, and its client.

use std::{sync::Arc, time::Instant};

use apiclient::{
    client::{Client, Reload, RequestMetrics, ServerClock, Timeouts},
    error::Result,
    reflector::{Lookup, Store},
    stop::Stop,
};
use kubeconfig::{Hub, config::ClusterConfig};
use serde_json::Value;

use crate::{
    addon::managed_cluster_addon::{self, AddOn},
    certificate::csrs::CsrClient,
    clocks::Clocks,
    identity::AgentNames,
};

/// Memory limit for an object of the hub, in bytes: a ManagedCluster has a few KiB, and some copies of it are made.
const HUB_OBJECT: usize = 512 << 10;
/// More namespaces than this are ignored: each costs memory, and a request. The hub may have managed as many before.
pub(crate) const MAX_NAMESPACES: usize = 500;

/// A span of time in which one valid credential follows another.
pub(crate) struct HubSession {
    /// Client for the hub as the agent's user; its credentials are swapped at each rotation.
    pub(crate) client: Client,
    pub(crate) hub: Hub,
    /// The requester's clock of this hub, which counts until `client` has one.
    pub(crate) clock: Option<ServerClock>,
    pub(crate) names: AgentNames,
    pub(crate) started: Instant,
    /// Raised when no credential is valid any more, or at the end.
    pub(crate) stop: Stop,
    pub(crate) managed_cluster: Store<Arc<Value>>,
    /// The spoke's namespaces with the hub's label.
    pub(crate) namespaces: Store<()>,
    pub(crate) addons: Store<Arc<AddOn>>,
    pub(crate) csrs: Arc<CsrClient>,
}

impl HubSession {
    /// Wakes `process` when a CSR changes, and ends with it.
    pub(crate) fn new(
        client: Client,
        (hub, clock): (Hub, Option<ServerClock>),
        names: AgentNames,
        process: &Stop,
    ) -> Self {
        let csrs = CsrClient::new(client.clone(), &names.cluster, process);
        Self {
            client,
            hub,
            clock,
            names,
            started: Instant::now(),
            stop: process.child(),
            managed_cluster: Store::new(1),
            namespaces: Store::new(2 * MAX_NAMESPACES).warning(),
            addons: managed_cluster_addon::store(),
            csrs: Arc::new(csrs),
        }
    }

    pub(crate) fn is_expired(&self, clocks: Clocks) -> bool {
        self.client.certificate_expiry().is_none_or(|end| clocks.are_past(end))
    }

    pub(crate) fn managed_cluster(&self) -> Option<Arc<Value>> {
        let cluster = self.managed_cluster.get(&self.names.cluster);
        if let Lookup::Object(cluster) = cluster { Some(cluster) } else { None }
    }
}

/// A client for a hub, within the limit of memory for its objects. `name` is the hub's in messages.
pub(crate) fn hub_client(
    name: &str,
    config: ClusterConfig,
    requests: &RequestMetrics,
) -> Result<Client> {
    let (timeouts, requests) = (Timeouts::default(), requests.clone());
    let client = Client::counting(name, config, Reload::Never, timeouts, requests)?;
    Ok(client.limited_to(HUB_OBJECT))
}
