//! What one step of a certificate works with: the moment, and both clusters through [`Io`].

use std::time::Instant;

use apiclient::error::Result;
use kubeconfig::Hub;
use log::Level;
use serde_json::Value;

use super::{
    csr::{CertificateRequest, CsrTemplate},
    validate::{Need, Validation},
};
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
    /// Saves a certificate with its key, and in any case what belongs next to them.
    fn save(&mut self, issued: Option<(&[u8], &CertificateRequest)>) -> Result<()>;
    /// The clocks of the requester's hub, which its last answer has set.
    fn clocks(&self) -> Clocks;
    /// Reports a step, for Events, logs and metrics; `reason` is the Event's.
    fn notify(&mut self, level: Level, reason: &'static str, message: String);
}

/// Who requests, and at which hub.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Requester {
    /// The agent's own identity, which the hub approves without a human; or else the bootstrap identity.
    pub(crate) is_agent: bool,
    pub(crate) hub: Hub,
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
    pub(crate) requester: Option<&'a Requester>,
    pub(crate) template: &'a CsrTemplate,
    /// The agent's own user.
    pub(crate) agent: &'a str,
    pub(crate) now: Instant,
    /// Uniform in [0, 1).
    pub(crate) random: f64,
}

impl CertificateContext<'_> {
    pub(super) fn is_saved(&self, request: &CertificateRequest) -> bool {
        self.key == Some(request.key.as_bytes())
    }

    /// The command that approves the CSR, at the end of a sentence: the hub does that for the agent, but not for the
    /// bootstrap identity.
    pub(super) fn approve(&self, name: &str) -> String {
        match self.requester {
            Some(requester) if !requester.is_agent => {
                format!(": kubectl certificate approve {name}")
            }
            _ => String::new(),
        }
    }
}
