//! What is known of getting certificates, from one turn of the loop to the next.

use std::time::{Duration, Instant};

use serde_json::Value;
use shared::{backoff::Backoff, kubeconfig::Hub, secret};

use super::{csr::CertificateRequest, csr_watch::CsrWatcher, machine::CsrMachine, need::HubMove};
use crate::{agent::Agent, identity::AgentNames};

/// Failures are tried again after at most this.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A hub that asks for more time is asked again after this.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Nothing but 401 for this long, up to twice as long, and the credential counts as refused: less may be a hub
/// that restarts, and a fleet does not come back in one second.
const REFUSED_AFTER: Duration = Duration::from_secs(30);

/// The memory of the loop in `manager.rs`: `observe.rs` looks, `machine.rs` decides, `perform.rs` does.
pub(crate) struct CertificateManager<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) names: AgentNames,
    pub(crate) registration: CsrMachine,
    pub(crate) asking: CsrWatcher,
    /// The Secret of the stored request.
    pub(crate) stored: Option<Value>,
    /// The certificate that this process got last, and until when it is used at least.
    pub(crate) obtained: Option<(Vec<u8>, Instant)>,
    /// For how long the hub may refuse the credential before another one is asked for.
    pub(crate) patience: Duration,
    /// Where the session's credential leads to.
    pub(crate) hub: Option<Hub>,
    pub(crate) errors: Backoff,
    /// It was told that there is a session.
    pub(crate) session_told: bool,
    /// Which bootstrap kubeconfig was seen last, and where it leads to.
    pub(crate) bootstrap_seen: (u64, Option<Hub>),
    /// What the hub at that place and the old one have answered.
    pub(crate) moving: HubMove,
    /// Why a certificate is needed, as it was told last.
    pub(crate) told: Option<String>,
    /// Since when a request waits for the hub's people, and whether that was told as too long.
    pub(crate) waiting: Option<(Instant, bool)>,
}

impl<'a> CertificateManager<'a> {
    /// With the request that an earlier process has stored.
    pub(crate) fn new(agent: &'a Agent, names: AgentNames, stored: Option<Value>) -> Self {
        // One that cannot be read is as good as none: another takes its place.
        let data = stored.as_ref().and_then(|stored| secret::data(stored).ok());
        let request = data.and_then(|data| CertificateRequest::of_secret(&data, &names));
        let mut registration = CsrMachine::default();
        registration.stored(request);
        Self {
            agent,
            names,
            registration,
            asking: CsrWatcher::default(),
            stored,
            obtained: None,
            patience: REFUSED_AFTER + REFUSED_AFTER.mul_f64(fastrand::f64()),
            hub: None,
            errors: Backoff::new(LONGEST_WAIT).heeding(LONGEST_PAUSE),
            session_told: false,
            bootstrap_seen: (0, None),
            moving: HubMove::default(),
            told: None,
            waiting: None,
        }
    }
}
