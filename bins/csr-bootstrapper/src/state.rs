//! State that all threads share, under one lock: objects of both clusters, and the certificate's status for
//! the endpoint.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Instant, SystemTime},
};

use apiclient::{
    client::Client,
    error::Error,
    reflector::{Lookup, Store},
    stop::Stop,
};
use serde_json::Value;

use crate::{
    addon::{self, AddOn},
    certificate::csrs::CsrClient,
    conditions::Condition,
    hub::Hub,
    identity::AgentNames,
    managed_namespace::MAX_NAMESPACES,
};

/// The objects of both clusters, as the threads know them.
#[derive(Default)]
pub(crate) struct SharedState {
    /// The selected one of several hubs: the index of its bootstrap kubeconfig, and its server.
    pub(crate) selected_hub: Option<(usize, String)>,
    /// The reason why the last selection found none.
    pub(crate) selection_error: Option<String>,
    /// The agent's names, once they are resolved.
    pub(crate) names: Option<AgentNames>,
    /// The result of the last rotation for condition ClusterCertificateRotated, once there is one.
    pub(crate) rotated: Option<Rotated>,
    /// The client that requests a certificate, unless it is the session's.
    pub(crate) requester: Option<Arc<CsrClient>>,
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
    /// `wakes` is woken when a CSR changes.
    pub(crate) fn new(
        client: Client,
        hub: Hub,
        names: AgentNames,
        stop: Stop,
        wakes: &Stop,
    ) -> Self {
        let csrs = CsrClient::new(client.clone(), &names.cluster, stop.child(), wakes);
        Self {
            client,
            hub,
            names,
            started: Instant::now(),
            stop,
            managed_cluster: Store::new(1),
            // The hub may have managed as many before as it manages.
            namespaces: Store::new(2 * MAX_NAMESPACES),
            addons: addon::store(),
            csrs: Arc::new(csrs),
        }
    }

    pub(crate) fn managed_cluster(&self) -> Option<Arc<Value>> {
        let cluster = self.managed_cluster.get(&self.names.cluster);
        if let Lookup::Object(cluster) = cluster { Some(cluster) } else { None }
    }
}

/// The result of the last rotation, for condition ClusterCertificateRotated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rotated {
    Done(String),
    /// The hub has too many requests already.
    Halted,
    /// No CSR could be created, with the first error of the outage: one outage has one message.
    NotCreated(String),
    Failed(String),
}

impl Rotated {
    /// `error` kept a CSR from being created.
    pub(crate) fn not_created(error: &Error) -> Self {
        Self::NotCreated(format!("Failed to create CSR {error}"))
    }

    /// A request ended without a certificate, as `sentence` says.
    pub(crate) fn ended(sentence: &str) -> Self {
        Self::Failed(format!("Failed to rotated client certificate {sentence}"))
    }

    pub(crate) fn condition(&self) -> Condition {
        let (status, reason) = match self {
            Self::Done(_) => ("True", "ClientCertificateUpdated"),
            _ => ("False", "ClientCertificateUpdateFailed"),
        };
        Condition::new(status, reason, self.message().to_owned())
    }

    /// In upstream's words.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Done(message) | Self::NotCreated(message) | Self::Failed(message) => message,
            Self::Halted => "Stop creating csr since there are too many csr created already on hub",
        }
    }
}

/// The certificate's status on the endpoint.
#[derive(Clone, Debug)]
pub(crate) struct CertificateStatus {
    /// The last turn of the loop, once it runs.
    pub(crate) beat: Option<Instant>,
    /// The reason why the credential in the Secret cannot be used, if it cannot.
    pub(crate) trouble: Option<String>,
    /// The progress towards a valid one.
    pub(crate) detail: Option<String>,
    pub(crate) posted: u64,
    /// Requests that ended, by upstream's reason.
    pub(crate) ended: BTreeMap<&'static str, u64>,
    /// The time at which this process last saved a certificate.
    pub(crate) saved: Option<SystemTime>,
    /// The time since which a request has been pending on the hub.
    pub(crate) pending: Option<SystemTime>,
}

impl Default for CertificateStatus {
    fn default() -> Self {
        Self {
            beat: None,
            trouble: Some("nothing has been checked yet".into()),
            detail: None,
            posted: 0,
            ended: BTreeMap::new(),
            saved: None,
            pending: None,
        }
    }
}

impl CertificateStatus {
    pub(crate) fn count_end(&mut self, how: &'static str) {
        *self.ended.entry(how).or_default() += 1;
    }
}
