//! State that threads share, and what the endpoint reports of it.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Instant, SystemTime},
};

use serde_json::Value;

use crate::{certificate::csrs::CsrClient, conditions::Condition, session::HubSession};

#[derive(Default)]
pub(crate) struct SharedState {
    /// The selected one of several hubs: the index of its bootstrap kubeconfig, and its server.
    pub(crate) selected_hub: Option<(usize, String)>,
    /// Why the last selection found none.
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
