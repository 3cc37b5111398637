//! The state that all threads share, under one lock: what is known of both clusters, and the certificate's
//! status for the endpoint.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Instant, SystemTime},
};

use serde_json::Value;
use shared::{
    client::{self, Client},
    stop::Stop,
};

use crate::{bootstrap::BootstrapKubeconfig, cached::CachedObject, identity::AgentNames};

/// What the threads know of both clusters.
#[derive(Default)]
pub(crate) struct SharedState {
    /// The Secret with the hub's credential.
    pub(crate) credential: CachedObject,
    /// The bootstrap kubeconfig, if there is one that can be used.
    pub(crate) bootstrap: Option<BootstrapKubeconfig>,
    /// How often that changed.
    pub(crate) bootstrap_version: u64,
    /// Why there is none.
    pub(crate) no_bootstrap: Option<String>,
    /// Who this agent is, once that is known.
    pub(crate) names: Option<AgentNames>,
    /// What condition ClusterCertificateRotated is to say, if anything happened yet.
    pub(crate) rotated: Option<Rotated>,
    /// The client that asks for a certificate, if that is not the session's.
    pub(crate) requester: Option<Client>,
    pub(crate) status: CertificateStatus,
    session: Option<Arc<HubSession>>,
    managed_cluster: Option<Value>,
}

impl SharedState {
    /// The current session, if there is a usable credential.
    pub(crate) fn session(&self) -> Option<Arc<HubSession>> {
        self.session.clone()
    }

    /// Begins a session, or ends it with `None`; returns the one before, which has ended.
    pub(crate) fn replace_session(
        &mut self,
        session: Option<Arc<HubSession>>,
    ) -> Option<Arc<HubSession>> {
        let ended = std::mem::replace(&mut self.session, session);
        if let Some(ended) = &ended {
            ended.stop.raise();
            self.managed_cluster = None;
        }
        ended
    }

    /// The ManagedCluster as the hub showed it last in this session.
    pub(crate) fn managed_cluster(&self) -> Option<Value> {
        self.managed_cluster.clone()
    }

    /// What was seen in a session that has ended says nothing of this one.
    pub(crate) fn set_managed_cluster(&mut self, session: &HubSession, cluster: Option<Value>) {
        if !session.stop.raised() {
            self.managed_cluster = cluster;
        }
    }

    pub(crate) fn set_bootstrap(&mut self, bootstrap: Option<BootstrapKubeconfig>) {
        if self.bootstrap != bootstrap {
            self.bootstrap = bootstrap;
            self.bootstrap_version += 1;
        }
    }
}

/// The time in which there is one usable credential after another.
pub(crate) struct HubSession {
    /// The hub as the agent's own user; its credentials are swapped at each rotation.
    pub(crate) client: Client,
    /// Raised when there is no usable credential any more, or at the end.
    pub(crate) stop: Stop,
}

/// What was asked of the hub in sessions, and by who asks for a certificate beside them.
#[derive(Default)]
pub(crate) struct HubRequests {
    pub(crate) session: client::RequestMetrics,
    pub(crate) requester: client::RequestMetrics,
}

/// How the last rotation went, for condition ClusterCertificateRotated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rotated {
    /// With the sentence about the certificate.
    Done(String),
    /// The hub has too many requests already.
    Halted,
    /// With the sentence about the failure.
    Failed(String),
}

impl Rotated {
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    /// For the condition, in upstream's words.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Done(message) | Self::Failed(message) => message,
            Self::Halted => "Stop creating csr since there are too many csr created already on hub",
        }
    }
}

/// What the endpoint reports of the certificate.
#[derive(Clone, Debug)]
pub(crate) struct CertificateStatus {
    /// When the loop last came by, once it runs.
    pub(crate) beat: Option<Instant>,
    /// Why the credential in the Secret cannot be used, if it cannot.
    pub(crate) trouble: Option<String>,
    /// How it goes with what is done about that.
    pub(crate) detail: Option<String>,
    /// Requests that were posted.
    pub(crate) posted: u64,
    /// Requests that ended, by upstream's word for how.
    pub(crate) ended: BTreeMap<&'static str, u64>,
    /// When a certificate was put into the Secret, if this process did.
    pub(crate) saved: Option<SystemTime>,
    /// Since when a request waits for somebody at the hub.
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
    /// A request came to an end.
    pub(crate) fn count_end(&mut self, how: &'static str) {
        *self.ended.entry(how).or_default() += 1;
    }
}
