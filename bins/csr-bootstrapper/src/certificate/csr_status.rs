//! Status of a CSR on the hub, with respect to the posted request. No I/O, no clock.

use apiclient::{certificate, log_line::quoted};
use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::check_pair;
use serde_json::Value;

use super::{
    csr::{CLUSTER_LABEL, CertificateRequest, CsrTemplate},
    pkcs10::Subject,
    validate::objection,
};
use crate::clocks::Clocks;

/// The number of pending requests that prevents the next one (ocm `pkg/registration/register/csr/options.go:72-84`).
pub const MAX_PENDING: usize = 10;

pub const ADDON_LABEL: &str = "open-cluster-management.io/addon-name";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CsrStatus {
    Pending,
    Approved,
    /// The chain from the hub: PEM, for our key and valid now.
    Issued(Vec<u8>),
}

/// Reasons of Events and metrics about a request that ended without a certificate.
pub const DENIED: &str = "CSRDenied";
pub const FAILED: &str = "CSRFailed";
pub const REJECTED: &str = "CertificateRejected";
/// An object of this name has another signer or requester.
pub const FOREIGN: &str = "CSRForeign";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CsrFailure {
    pub reason: &'static str,
    /// The predicate of a sentence about `CSR <name>`.
    pub sentence: String,
}

impl CsrFailure {
    fn new(reason: &'static str, sentence: impl Into<String>) -> Self {
        Self { reason, sentence: sentence.into() }
    }

    /// Returns whether a human or a policy refused the request.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.reason, DENIED | FAILED)
    }
}

/// What a CSR must match to be ours.
pub struct Judge<'a> {
    pub request: &'a CertificateRequest,
    pub template: &'a CsrTemplate,
    /// The agent's own user.
    pub agent: &'a str,
    /// Whether the requester is that user, and not the bootstrap identity: a hub renews only for that user.
    pub by_agent: bool,
    pub clocks: Clocks,
}

/// Returns the status of `csr` for the request, or why it yields no usable certificate.
pub fn evaluate(csr: &Value, judge: &Judge<'_>) -> Result<CsrStatus, CsrFailure> {
    let Judge { request, template, agent, by_agent, clocks } = *judge;
    let spec = &csr["spec"];
    let foreign = || CsrFailure::new(FOREIGN, "is not what this agent asks for now");
    if spec["signerName"] != *template.signer {
        return Err(foreign());
    }
    // The requester determines whether a person must approve; after the signature, it does not matter.
    let of_other = (spec["username"] == *agent) != by_agent;
    let quoted = |kind| condition(csr, kind).map(words);
    match (quoted("Denied"), quoted("Failed"), issued(csr)) {
        (Some(_), ..) | (_, Some(_), _) | (.., None) if of_other => Err(foreign()),
        (Some(why), ..) => Err(CsrFailure::new(DENIED, format!("was denied{why}"))),
        (_, Some(why), _) => {
            Err(CsrFailure::new(FAILED, format!("was approved but not signed{why}")))
        }
        (.., Some(text)) => accept(text, request, &template.subject, clocks)
            .map(CsrStatus::Issued)
            .map_err(|why| CsrFailure::new(REJECTED, why)),
        _ if condition(csr, "Approved").is_some() => Ok(CsrStatus::Approved),
        _ => Ok(CsrStatus::Pending),
    }
}

/// Returns whether this CSR is pending and matches `template`, from any agent of the cluster's name.
pub fn is_pending(csr: &Value, template: &CsrTemplate) -> bool {
    let (metadata, labels) = (&csr["metadata"], &csr["metadata"]["labels"]);
    let has_prefix =
        metadata["name"].as_str().is_some_and(|name| name.starts_with(&template.name_prefix));
    let label = |key| template.labels.get(key).map(String::as_str);
    has_prefix
        && [CLUSTER_LABEL, ADDON_LABEL].iter().all(|key| labels[*key].as_str() == label(*key))
        && csr["spec"]["signerName"] == *template.signer
        && issued(csr).is_none()
        && ["Approved", "Denied", "Failed"].iter().all(|kind| condition(csr, kind).is_none())
}

fn issued(csr: &Value) -> Option<&str> {
    csr["status"]["certificate"].as_str().filter(|text| !text.is_empty())
}

/// Returns a condition that holds; in `v1beta1`, conditions have no status.
fn condition<'a>(csr: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = csr["status"]["conditions"].as_array()?;
    let holds = |status: &Value| status.as_str().is_none_or(|text| matches!(text, "True" | ""));
    conditions.iter().find(|condition| condition["type"] == kind && holds(&condition["status"]))
}

fn words(condition: &Value) -> String {
    let words = ["reason", "message"].map(|field| condition[field].as_str().unwrap_or_default());
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    match words.is_empty() {
        true => " without a reason".into(),
        false => format!(": {}", quoted(&words.join(": "))),
    }
}

/// Returns the chain in `text`, if it is valid now, for our key and for this request.
fn accept(
    text: &str,
    request: &CertificateRequest,
    subject: &Subject,
    clocks: Clocks,
) -> Result<Vec<u8>, String> {
    let pem =
        BASE64_STANDARD.decode(text).map_err(|_| "was issued a certificate that is not base64")?;
    let chain =
        certificate::chain(&pem).map_err(|what| format!("was answered with PEM that {what}"))?;
    if let Some(what) = objection(&chain, subject, clocks) {
        return Err(format!("was answered with a certificate that {what}"));
    }
    check_pair(&pem, request.key.as_bytes())
        .map_err(|_| "was answered with a certificate that is for another key")?;
    Ok(pem)
}

#[cfg(test)]
mod tests;
