//! State that threads share: a session with a hub, the certificate's status, the bootstrap kubeconfigs.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Instant, SystemTime},
};

use apiclient::{
    client::Client,
    reflector::{Lookup, Store},
    stop::Stop,
};
use kubeconfig::{
    Hub,
    config::{Auth, ClusterConfig, KeyPair},
    secret,
};
use serde_json::Value;

use crate::{
    addon::managed_cluster_addon::{self, AddOn},
    certificate::csrs::CsrClient,
    conditions::Condition,
    identity::AgentNames,
};

/// More namespaces than this are ignored: each costs memory, and a request.
pub(crate) const MAX_NAMESPACES: usize = 500;

/// The state that all threads share, under one lock.
#[derive(Default)]
pub(crate) struct SharedState {
    /// The selected one of several hubs: the index of its bootstrap kubeconfig, and its server.
    pub(crate) selected_hub: Option<(usize, String)>,
    /// The reason why the last selection found none.
    pub(crate) selection_error: Option<String>,
    /// Condition ClusterCertificateRotated, once there has been a rotation.
    pub(crate) rotated: Option<Condition>,
    /// The client that requests a certificate, unless it is the session's.
    pub(crate) requester: Option<Arc<CsrClient>>,
    /// The credential's Secret as the files have it.
    pub(crate) published: Option<Arc<Value>>,
    pub(crate) status: CertificateStatus,
    pub(crate) session: Option<Arc<HubSession>>,
}

/// A span of time in which one valid credential follows another.
pub(crate) struct HubSession {
    /// Client for the hub as the agent's user; its credentials are swapped at each rotation.
    pub(crate) client: Client,
    /// The hub that it leads to.
    pub(crate) hub: Hub,
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
    pub(crate) fn new(client: Client, hub: Hub, names: AgentNames, process: &Stop) -> Self {
        let csrs = CsrClient::new(client.clone(), &names.cluster, process);
        Self {
            client,
            hub,
            names,
            started: Instant::now(),
            stop: process.child(),
            managed_cluster: Store::new(1),
            // The hub may have managed as many before as it manages.
            namespaces: Store::new(2 * MAX_NAMESPACES).warning(),
            addons: managed_cluster_addon::store(),
            csrs: Arc::new(csrs),
        }
    }

    pub(crate) fn managed_cluster(&self) -> Option<Arc<Value>> {
        let cluster = self.managed_cluster.get(&self.names.cluster);
        if let Lookup::Object(cluster) = cluster { Some(cluster) } else { None }
    }
}

/// The credential in the Secret.
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
    /// The last turn of the loop, once it runs.
    pub(crate) beat: Option<Instant>,
    pub(crate) credential: CredentialState,
    /// The progress towards the next one.
    pub(crate) detail: Option<String>,
    /// The failure of the last step.
    pub(crate) error: Option<String>,
    pub(crate) posted: u64,
    /// Requests that ended, by upstream's reason.
    pub(crate) ended: BTreeMap<&'static str, u64>,
    /// The time at which this process last saved a certificate.
    pub(crate) saved: Option<SystemTime>,
    /// The time since which a request has been pending on the hub.
    pub(crate) pending: Option<SystemTime>,
}

impl CertificateStatus {
    /// Why the credential cannot be used, if it cannot.
    pub(crate) fn trouble(&self) -> Option<&str> {
        match &self.credential {
            CredentialState::Unchecked => Some("nothing has been checked yet"),
            CredentialState::Unusable(why) => Some(why),
            CredentialState::Stale | CredentialState::Good => None,
        }
    }

    /// The failure of the last step, or the progress.
    pub(crate) fn progress(&self) -> Option<String> {
        self.error.clone().or_else(|| self.detail.clone())
    }

    pub(crate) fn count_end(&mut self, how: &'static str) {
        *self.ended.entry(how).or_default() += 1;
    }
}

/// The hub that a bootstrap kubeconfig leads to, and the connection.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BootstrapKubeconfig {
    pub(crate) hub: Hub,
    pub(crate) config: ClusterConfig,
}

/// What a source gave when it was read last: a bootstrap kubeconfig, or the reason why none is valid.
pub(crate) type SourceResult = Result<Arc<BootstrapKubeconfig>, String>;

impl BootstrapKubeconfig {
    /// The connection to the hub with the agent's own identity.
    pub(crate) fn as_agent(&self, identity: &KeyPair) -> ClusterConfig {
        ClusterConfig { identity: Some(identity.clone()), auth: Auth::None, ..self.config.clone() }
    }

    pub(crate) fn of_secret(secret: &Value) -> kubeconfig::error::Result<Self> {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        let data = secret::data(secret)?;
        Ok(Self {
            config: kubeconfig::from_secret(name, &data)?,
            hub: Hub::of_secret(name, &data)?,
        })
    }
}
