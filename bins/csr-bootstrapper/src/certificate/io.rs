//! What [`Certificate::sync`](super::sync::Certificate::sync) needs of the clusters; the model's world implements it too.

use std::time::{Duration, Instant};

use apiclient::error::Result;
use serde_json::Value;

use super::{
    csr::{CertificateRequest, CsrTemplate},
    csr_status::CsrFailure,
    need::{Need, Requester},
    validate::Validation,
};
use crate::{clocks::Clocks, hub::Hub};

/// The requester's view of both clusters.
pub(crate) trait Io {
    /// Makes a key and its request.
    fn new_request(&mut self) -> Result<CertificateRequest>;
    /// Stores `request`, or nothing, in place of `previous`. `AlreadyExists`, `Conflict` and `NotFound` mean that something
    /// else is stored by now.
    fn store(
        &mut self,
        request: Option<&CertificateRequest>,
        previous: Option<&CertificateRequest>,
    ) -> Result<()>;
    /// Reads the stored request.
    fn stored(&mut self) -> Result<Option<CertificateRequest>>;
    /// The names of the requester's pending CSRs, up to the limit.
    fn pending(&mut self) -> Result<Vec<String>>;
    /// The CSR of this name on the requester's hub.
    fn csr(&mut self, name: &str) -> Result<Option<Value>>;
    /// Posts the CSR. `AlreadyExists` means that an earlier attempt arrived.
    fn create_csr(&mut self, request: &CertificateRequest) -> Result<()>;
    /// Saves a certificate with its key, and in any case what belongs next to them.
    fn save(&mut self, issued: Option<(&[u8], &CertificateRequest)>) -> Result<()>;
    /// The clocks of the requester's hub, which its last answer has set.
    fn clocks(&self) -> Clocks;
    fn notify(&mut self, notice: &Notice<'_>);
}

/// What people and metrics are told.
pub(crate) enum Notice<'a> {
    /// The hub has too many pending CSRs.
    Halted {
        pending: &'a [String],
        is_new: bool,
    },
    Created(&'a str),
    /// With the sentence about the approval or signature that is missing.
    Pending {
        sentence: &'a str,
        is_new: bool,
        is_overdue: bool,
    },
    /// The CSR is gone without an answer; it is posted again after the rest.
    Gone {
        name: &'a str,
        rest: Duration,
    },
    /// The request ended without a certificate.
    Ended {
        name: &'a str,
        sentence: &'a str,
        failure: &'a CsrFailure,
        rest: Duration,
    },
    Saved(&'a str),
    Repaired,
}

/// What is known at one moment.
pub(crate) struct Observation<'a> {
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
    pub(super) fn identity(&self) -> Option<Requester> {
        self.requester.map(|(requester, _)| requester)
    }

    /// Returns whether the Secret has the key of `request`.
    pub(super) fn is_saved(&self, request: &CertificateRequest) -> bool {
        self.key == Some(request.key.as_bytes())
    }
}
