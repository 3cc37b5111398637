//! State that threads share: the session with a hub and its client, and the status on the endpoint.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Instant, SystemTime},
};

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
    conditions::Condition,
    identity::AgentNames,
};

/// Memory limit for an object of the hub, in bytes: a ManagedCluster has a few KiB, and is copied several times.
const HUB_OBJECT: usize = 512 << 10;
/// Maximum number of managed namespaces: each costs memory and a request. The hub may have managed as many before.
pub(crate) const MAX_NAMESPACES: usize = 500;

#[derive(Default)]
pub(crate) struct SharedState {
    /// The selected hub of several: the index of its bootstrap kubeconfig, and its server.
    pub(crate) selected_hub: Option<(usize, String)>,
    /// Why the last selection found no hub.
    pub(crate) selection_error: Option<String>,
    /// Condition ClusterCertificateRotated, once known.
    pub(crate) rotated: Option<Condition>,
    /// The client that requests a certificate, unless it is the session's.
    pub(crate) requester: Option<Arc<CsrClient>>,
    /// The credential's Secret as last written to the files.
    pub(crate) published: Option<Arc<Value>>,
    pub(crate) status: CertificateStatus,
    pub(crate) session: Option<Arc<HubSession>>,
}

/// State of the credential in the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum CredentialState {
    #[default]
    Unchecked,
    /// With the reason, in a sentence.
    Unusable(String),
    /// Usable, but it needs a repair.
    Stale,
    Good,
}

/// The certificate's status on the endpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct CertificateStatus {
    /// Time of the loop's last turn, once it runs.
    pub(crate) beat: Option<Instant>,
    pub(crate) credential: CredentialState,
    /// The progress towards the next credential.
    pub(crate) detail: Option<String>,
    /// The failure of the last step.
    pub(crate) error: Option<String>,
    pub(crate) posted: u64,
    /// Number of requests that ended, by upstream's reason.
    pub(crate) ended: BTreeMap<&'static str, u64>,
    /// The time at which this process last saved a certificate.
    pub(crate) saved: Option<SystemTime>,
    /// The time since which a request has been pending on the hub.
    pub(crate) pending: Option<SystemTime>,
}

impl CertificateStatus {
    /// Returns why the credential is unusable, if it is.
    pub(crate) fn trouble(&self) -> Option<&str> {
        match &self.credential {
            CredentialState::Unchecked => Some("nothing has been checked yet"),
            CredentialState::Unusable(why) => Some(why),
            CredentialState::Stale | CredentialState::Good => None,
        }
    }

    /// Returns the failure of the last step, or else the progress.
    pub(crate) fn progress(&self) -> Option<String> {
        self.error.clone().or_else(|| self.detail.clone())
    }

    pub(crate) fn count_end(&mut self, how: &'static str) {
        *self.ended.entry(how).or_default() += 1;
    }
}

/// A session with a hub, in which one valid credential follows another.
pub(crate) struct HubSession {
    /// Client for the hub as the agent's user; its credentials are swapped at each rotation.
    pub(crate) client: Client,
    pub(crate) hub: Hub,
    /// The clock of this hub by the requester, used until `client` has one.
    pub(crate) clock: Option<ServerClock>,
    pub(crate) names: AgentNames,
    pub(crate) started: Instant,
    /// Raised when no credential is valid any more, at a change of the hub, or at the end of the process.
    pub(crate) stop: Stop,
    pub(crate) managed_cluster: Store<Arc<Value>>,
    /// The spoke's namespaces with the hub's label.
    pub(crate) namespaces: Store<()>,
    pub(crate) addons: Store<Arc<AddOn>>,
    pub(crate) csrs: Arc<CsrClient>,
}

impl HubSession {
    /// Creates a session, which wakes `process` when a CSR changes, and ends with it.
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

/// Returns a client for a hub, with a memory limit for its objects. Messages call the hub `name`.
pub(crate) fn hub_client(
    name: &str,
    config: ClusterConfig,
    requests: &RequestMetrics,
) -> Result<Client> {
    let (timeouts, requests) = (Timeouts::default(), requests.clone());
    let client = Client::counting(name, config, Reload::Never, timeouts, requests)?;
    Ok(client.limited_to(HUB_OBJECT))
}
