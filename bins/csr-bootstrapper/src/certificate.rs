//! Certificate for the hub: from the need for one to the Secret that holds it.
//!
//! `sync.rs` requests, awaits and saves a certificate over the trait [`Io`], for the cluster and for each add-on.
//! `manager.rs` is the cluster's loop, `cluster.rs` its side of `Io`; the model implements `Io` too.

pub(crate) mod cluster;
pub mod csr;
pub mod csr_status;
pub(crate) mod csrs;
pub(crate) mod deadline;
pub(crate) mod manager;
pub(crate) mod pacing;
pub mod pkcs10;
pub(crate) mod store;
pub(crate) mod sync;
pub mod validate;

use std::time::Instant;

use apiclient::error::Result;
use kubeconfig::Hub;
use log::Level;
use serde_json::Value;

pub(crate) use self::csr::{CertificateRequest, CsrTemplate, KUBE_API_SERVER_CLIENT};
use self::validate::{Need, Validation};
use crate::clocks::Clocks;

/// The requester's view of both clusters.
pub(crate) trait Io {
    /// Makes a request; `why` is a sentence.
    fn new_request(&mut self, why: &str) -> Result<CertificateRequest>;
    /// The stored request, which is read again if it may have changed.
    fn stored(&mut self) -> Result<Option<CertificateRequest>>;
    /// Stores `request`, or nothing. Where another writer was faster this fails, and [`Self::stored`] has its request.
    fn store(&mut self, request: Option<&CertificateRequest>) -> Result<()>;
    /// The number of the requester's pending CSRs, up to the limit.
    fn pending(&mut self) -> Result<usize>;
    fn csr(&mut self, name: &str) -> Result<Option<Value>>;
    /// Posts the CSR. `AlreadyExists` means that an earlier attempt arrived.
    fn create_csr(&mut self, request: &CertificateRequest) -> Result<()>;
    /// Stops awaiting the CSR of this name.
    fn forget(&mut self, name: &str);
    /// Saves a certificate with its key, and in any case what belongs next to them.
    fn save(&mut self, issued: Option<(&[u8], &CertificateRequest)>) -> Result<()>;
    /// The clocks of the requester's hub, which its last answer has set.
    fn clocks(&self) -> Clocks;
    /// Reports a step, for Events, logs and metrics; `reason` is the Event's.
    fn notify(&mut self, level: Level, reason: &'static str, message: String);
}

const HALTED: &str = "ClientCertificateCreationHalted";
const CREATED: &str = "CSRCreated";
const PENDING: &str = "CSRPending";
const SAVED: &str = "ClientCertificateCreated";
const GONE: &str = "CSRGone";
const REPAIRED: &str = "SecretSave";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Requester {
    /// The agent's own identity; the hub approves it without a human.
    Agent,
    Bootstrap,
}

/// The requester of the next certificate, and its hub: the bootstrap kubeconfig's if there is one, because the
/// certificate is saved next to a kubeconfig for that. The agent requests only where `accepting`, the hub that accepts
/// its certificate, is the same.
fn requester<'a>(
    accepting: Option<&'a Hub>,
    bootstrap: Option<&'a Hub>,
) -> Option<(Requester, &'a Hub)> {
    let is_same = |hub: &Hub| bootstrap.is_none_or(|to| hub.differs_from(to).is_none());
    let requester = match accepting.is_some_and(is_same) {
        true => Requester::Agent,
        false => Requester::Bootstrap,
    };
    Some((requester, bootstrap.or(accepting)?))
}

/// What is known at one moment, and the clusters.
pub(crate) struct CertificateContext<'a> {
    pub(crate) io: &'a mut dyn Io,
    /// `Secret ns/name`, for sentences.
    pub(crate) secret: &'a str,
    pub(crate) need: &'a Need,
    pub(crate) validation: &'a Validation,
    /// `tls.key` of the Secret.
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) requester: Option<(Requester, &'a Hub)>,
    pub(crate) template: &'a CsrTemplate,
    /// The agent's own user.
    pub(crate) agent: &'a str,
    pub(crate) now: Instant,
    /// Uniform in [0, 1).
    pub(crate) random: f64,
}

impl CertificateContext<'_> {
    fn is_saved(&self, request: &CertificateRequest) -> bool {
        self.key == Some(request.key.as_bytes())
    }

    /// The command that approves the CSR, at the end of a sentence: the hub does that for the agent, but not for the
    /// bootstrap identity.
    fn approve(&self, name: &str) -> String {
        match self.requester {
            Some((Requester::Bootstrap, _)) => format!(": kubectl certificate approve {name}"),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
pub(crate) use self::csr::tests::authority;

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::model::fixtures::hub;

    #[test]
    fn agent_requests_only_at_the_hub_of_the_bootstrap_kubeconfig() {
        let here = hub();
        let same = Hub { server_name: Some("hub".into()), ..hub() };
        let there = Hub { server: "https://other.example:6443".into(), ..hub() };
        for (accepting, bootstrap, expected) in [
            (None, None, None),
            (Some(&here), None, Some((Requester::Agent, &here))),
            (Some(&here), Some(&same), Some((Requester::Agent, &same))),
            (Some(&here), Some(&there), Some((Requester::Bootstrap, &there))),
            (None, Some(&there), Some((Requester::Bootstrap, &there))),
        ] {
            assert_eq!(requester(accepting, bootstrap), expected);
        }
    }
}
