//! What [`Certificate::sync`](super::sync::Certificate::sync) needs of the clusters; the model's world implements it too.

use std::time::Instant;

use apiclient::error::Result;
use log::Level;
use serde_json::Value;

use super::{
    csr::{CertificateRequest, CsrTemplate},
    validate::{Need, Validation},
};
use crate::{clocks::Clocks, hub::Hub};

/// The requester's view of both clusters.
pub(crate) trait Io {
    /// Makes a key and its request.
    fn new_request(&mut self) -> Result<CertificateRequest>;
    /// The stored request, which is read again if it may have changed.
    fn stored(&mut self) -> Result<Option<CertificateRequest>>;
    /// Stores `request`, or nothing. `AlreadyExists`, `Conflict` and `NotFound` mean that another writer was faster:
    /// [`Self::stored`] has its request.
    fn store(&mut self, request: Option<&CertificateRequest>) -> Result<()>;
    /// The names of the requester's pending CSRs, up to the limit.
    fn pending(&mut self) -> Result<Vec<String>>;
    /// The CSR of this name on the requester's hub.
    fn csr(&mut self, name: &str) -> Result<Option<Value>>;
    /// Posts the CSR. `AlreadyExists` means that an earlier attempt arrived.
    fn create_csr(&mut self, request: &CertificateRequest) -> Result<()>;
    /// The CSR of this name has ended without a certificate.
    fn forget(&mut self, name: &str);
    /// Saves a certificate with its key, and in any case what belongs next to them.
    fn save(&mut self, issued: Option<(&[u8], &CertificateRequest)>) -> Result<()>;
    /// The clocks of the requester's hub, which its last answer has set.
    fn clocks(&self) -> Clocks;
    fn notify(&mut self, notice: &Notice);
}

pub(crate) const HALTED: &str = "ClientCertificateCreationHalted";
pub(crate) const CREATED: &str = "CSRCreated";
pub(crate) const PENDING: &str = "CSRPending";
pub(crate) const GONE: &str = "CSRGone";
pub(crate) const SAVED: &str = "ClientCertificateCreated";
pub(crate) const REPAIRED: &str = "SecretSave";

/// A step for Events, logs and metrics.
pub(crate) struct Notice {
    /// The Event's reason.
    pub(crate) reason: &'static str,
    pub(crate) level: Level,
    /// `false` repeats a notice about the same wait or halt.
    pub(crate) is_new: bool,
    pub(crate) message: String,
}

impl Notice {
    pub(super) fn new(reason: &'static str, level: Level, message: String) -> Self {
        Self { reason, level, is_new: true, message }
    }
}

/// The identity that requests the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Requester {
    /// The agent's own; the hub approves it without a human.
    Agent,
    /// The bootstrap kubeconfig's.
    Bootstrap,
}

/// What is known at one moment.
pub(crate) struct Observation<'a> {
    /// `Secret ns/name`, for sentences.
    pub(crate) secret: &'a str,
    pub(crate) need: &'a Need,
    pub(crate) validation: &'a Validation,
    /// `tls.key` of the Secret.
    pub(crate) key: Option<&'a [u8]>,
    /// The requester and its hub.
    pub(crate) requester: Option<(Requester, &'a Hub)>,
    /// A person or an add-on's manager approves the CSR.
    pub(crate) approved_by_hand: bool,
    pub(crate) template: &'a CsrTemplate,
    /// The agent's own user.
    pub(crate) agent: &'a str,
    pub(crate) now: Instant,
    /// Uniform in [0, 1).
    pub(crate) random: f64,
}

impl Observation<'_> {
    /// Returns whether the Secret has the key of `request`.
    pub(super) fn is_saved(&self, request: &CertificateRequest) -> bool {
        self.key == Some(request.key.as_bytes())
    }
}
