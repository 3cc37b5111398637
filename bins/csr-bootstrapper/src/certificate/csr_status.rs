//! The meaning of a CSR on the hub, as it was read, for the request that was posted. No I/O, no clock.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use shared::{
    certificate,
    kubeconfig::{Hub, check_pair},
    logging::quoted,
};

use super::{
    csr::{self, CLUSTER_LABEL, CertificateRequest, SIGNER},
    validate::objection,
};
use crate::{clocks::Clocks, identity::AgentNames};

/// How many unanswered requests of the own user stop the next one; the Go agent's limit, which counts
/// answered ones too (ocm `pkg/registration/register/csr/options.go:72-84`).
pub(crate) const MOST_PENDING: usize = 10;

const ADDON_LABEL: &str = "open-cluster-management.io/addon-name";

/// The texts go on after "CSR <name> ".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CsrStatus {
    /// Nobody decided yet.
    Pending,
    /// Without a certificate yet.
    Approved,
    /// The chain as the hub gave it: PEM, ours, good now.
    Issued(Vec<u8>),
    Denied(String),
    Failed(String),
    /// Another object under this name than the one that was posted.
    Replaced,
    /// Under this name, but not our request, signer or requester.
    Foreign,
    /// Issued, but not what can be used.
    Wrong(String),
}

impl CsrStatus {
    /// For whom the CSR `name` waits, if it does: a person has to approve what the `bootstrap` identity asks
    /// for.
    pub(crate) fn pending_sentence(&self, name: &str, bootstrap: bool) -> Option<String> {
        match self {
            Self::Pending if bootstrap => {
                Some(format!("CSR {name} is not approved yet: kubectl certificate approve {name}"))
            }
            Self::Pending => Some(format!("CSR {name} is not approved by the hub yet")),
            Self::Approved => {
                Some(format!("CSR {name} is approved, but the hub's signer has not signed it"))
            }
            _ => None,
        }
    }

    /// The end that the CSR came to, if that is no certificate.
    pub(crate) fn failure(&self) -> Option<CsrFailure> {
        match self {
            Self::Pending | Self::Approved | Self::Issued(_) => None,
            Self::Denied(why) => Some(CsrFailure::Denied(why.clone())),
            Self::Failed(why) => Some(CsrFailure::Failed(why.clone())),
            Self::Wrong(why) => Some(CsrFailure::Rejected(why.clone())),
            Self::Replaced => Some(CsrFailure::Replaced),
            Self::Foreign => Some(CsrFailure::Foreign),
        }
    }
}

/// The CSR on the hub, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ObservedCsr {
    /// About to be seen, or of no matter.
    Awaited,
    /// It has to be watched first.
    Unwatched,
    /// Not seen for too long.
    Unknown,
    /// There is none.
    Absent,
    /// There is one, and it means this.
    Present(CsrStatus),
}

/// The CSR with a certificate, and the hub that signed it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IssuedCsr {
    pub(crate) hub: Hub,
    pub(crate) csr: Value,
}

/// An end of a request that is not a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CsrFailure {
    /// Why, in the hub's words.
    Denied(String),
    /// Why, in the hub's words.
    Failed(String),
    /// What is wrong with the certificate.
    Rejected(String),
    /// By another object of its name.
    Replaced,
    /// Of the other identity of this agent, or of somebody else.
    Foreign,
}

impl CsrFailure {
    /// For the Event and the metric.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Denied(_) => "CSRDenied",
            Self::Failed(_) => "CSRFailed",
            Self::Rejected(_) => "CertificateRejected",
            Self::Replaced => "CSRReplaced",
            Self::Foreign => "CSRForeign",
        }
    }

    /// To go on after "CSR x ".
    pub(crate) fn sentence(&self) -> &str {
        match self {
            Self::Denied(why) | Self::Failed(why) | Self::Rejected(why) => why,
            Self::Replaced => "was replaced by another object of its name",
            Self::Foreign => "is not what this agent asks for now",
        }
    }
}

/// What `csr` means for `request`; `posted_uid` is that of the answer to the post, if it was seen. It was
/// posted by the agent's own user, or else by the bootstrap identity: a hub renews only for the former.
pub(crate) fn evaluate(
    csr: &Value,
    request: &CertificateRequest,
    posted_uid: Option<&str>,
    requester_is_agent: bool,
    names: &AgentNames,
    clocks: Clocks,
) -> CsrStatus {
    if posted_uid.is_some_and(|uid| csr["metadata"]["uid"] != uid) {
        return CsrStatus::Replaced;
    }
    let spec = &csr["spec"];
    if content(spec).as_ref() != Some(&request.csr) || spec["signerName"] != SIGNER {
        return CsrStatus::Foreign;
    }
    // Who asked decides whether a person has to approve; once it is signed, nothing.
    let of_other = (spec["username"] == names.user()) != requester_is_agent;
    let quoted = |kind| condition(csr, kind).map(words);
    match (quoted("Denied"), quoted("Failed"), issued(csr)) {
        (Some(_), ..) | (_, Some(_), _) | (.., None) if of_other => CsrStatus::Foreign,
        (Some(why), ..) => CsrStatus::Denied(format!("was denied{why}")),
        (_, Some(why), _) => CsrStatus::Failed(format!("was approved but not signed{why}")),
        (.., Some(text)) => {
            accept(text, request, names, clocks).map_or_else(CsrStatus::Wrong, CsrStatus::Issued)
        }
        _ if condition(csr, "Approved").is_some() => CsrStatus::Approved,
        _ => CsrStatus::Pending,
    }
}

/// Whether nobody answered this request, and it is one for our own user: add-ons of this cluster and other
/// agents under its name ask too.
pub(crate) fn is_own_pending(csr: &Value, names: &AgentNames) -> bool {
    let (metadata, spec) = (&csr["metadata"], &csr["spec"]);
    let named =
        metadata["name"].as_str().and_then(|name| name.strip_prefix(names.cluster.as_str()));
    named.is_some_and(|rest| rest.starts_with('-'))
        && metadata["labels"][CLUSTER_LABEL] == names.cluster
        && metadata["labels"][ADDON_LABEL].is_null()
        && spec["signerName"] == SIGNER
        && issued(csr).is_none()
        && ["Approved", "Denied", "Failed"].iter().all(|kind| condition(csr, kind).is_none())
        && content(spec).is_some_and(|pem| csr::asks_for(&pem, &names.user()))
}

/// The PEM that was asked with.
fn content(spec: &Value) -> Option<String> {
    String::from_utf8(BASE64_STANDARD.decode(spec["request"].as_str()?).ok()?).ok()
}

fn issued(csr: &Value) -> Option<&str> {
    csr["status"]["certificate"].as_str().filter(|text| !text.is_empty())
}

/// A condition that holds; `v1beta1` had them without a status.
fn condition<'a>(csr: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = csr["status"]["conditions"].as_array()?;
    let holds = |status: &Value| status.as_str().is_none_or(|text| matches!(text, "True" | ""));
    conditions.iter().find(|condition| condition["type"] == kind && holds(&condition["status"]))
}

/// The reason and the message of a condition, in one line.
fn words(condition: &Value) -> String {
    let words = ["reason", "message"].map(|field| condition[field].as_str().unwrap_or_default());
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    match words.is_empty() {
        true => " without a reason".into(),
        false => format!(": {}", quoted(&words.join(": "))),
    }
}

/// The chain in `text`, if it can be used with our key, now and for what was asked.
fn accept(
    text: &str,
    request: &CertificateRequest,
    names: &AgentNames,
    clocks: Clocks,
) -> Result<Vec<u8>, String> {
    let pem = BASE64_STANDARD.decode(text).map_err(|_| "was answered with what is not base64")?;
    let chain =
        certificate::chain(&pem).map_err(|what| format!("was answered with PEM that {what}"))?;
    if let Some(what) = objection(&chain, names, clocks) {
        return Err(format!("was answered with a certificate that {what}"));
    }
    check_pair(&pem, request.key.as_bytes())
        .map_err(|_| "was answered with a certificate that is for another key")?;
    Ok(pem)
}

#[cfg(test)]
mod tests;
