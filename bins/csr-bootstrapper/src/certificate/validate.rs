//! Validation of a credential for the hub, in a Secret or a directory, and its need. No I/O, no clock.

use std::time::Duration;

use apiclient::{
    certificate::{self, X509Certificate},
    log_line::quoted,
    time::seconds_time,
};
use kubeconfig::{
    self, Hub, check_pair,
    config::{Auth, ClusterConfig, KeyPair},
    secret::{self, Data},
};

use serde_json::Value;

use super::pkcs10::Subject;
use crate::{
    clocks::Clocks,
    identity::{AGENT_NAME, AgentNames, CLUSTER_NAME, said},
};

/// How long before its notBefore a certificate is valid: the hub has another clock, and a naive check rejects new
/// certificates (kubernetes/kubernetes#97680).
pub const TOLERANCE: Duration = Duration::from_secs(300);

/// Returns the content of a Secret, and its validation by `validate`.
pub(crate) fn of_secret(
    secret: Option<&Value>,
    validate: impl FnOnce(&Data) -> Validation,
) -> (Data, Validation) {
    match secret.map(secret::data) {
        Some(Ok(data)) => {
            let validation = validate(&data);
            (data, validation)
        }
        Some(Err(error)) => {
            (Data::new(), Err(unusable(UNREADABLE, format!("cannot be read: {error}"))))
        }
        None => (Data::new(), Err(unusable(NOT_VALID, "does not exist"))),
    }
}

/// A usable credential may be for another hub, see [`UsableCredential::moved`].
pub type Validation = Result<UsableCredential, UnusableCredential>;

/// A valid certificate of this agent, with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsableCredential {
    pub identity: KeyPair,
    pub chain: Vec<X509Certificate>,
    pub hub: Hub,
    /// What differs between `hub` and the bootstrap kubeconfig's hub, if they are not the same.
    pub moved: Option<&'static str>,
    /// `None` if the kubeconfig next to the valid certificate is not valid; a new one can be written.
    pub config: Option<ClusterConfig>,
    /// Whether the kubeconfig or a name next to it needs a repair.
    pub stale: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnusableCredential {
    /// The problem, as the predicate of a sentence about the Secret or the directory.
    pub reason: String,
    /// The Go agent's reason for an Event (ocm `pkg/registration/register/csr/csr.go:484-530`).
    pub event: &'static str,
}

fn unusable(event: &'static str, reason: impl Into<String>) -> UnusableCredential {
    UnusableCredential { reason: reason.into(), event }
}

/// Subject of kubeconfig errors; only their predicate is used.
const SUBJECT: &str = "";
const UNREADABLE: &str = "CertificateValidationFailed";
const NOT_VALID: &str = "NoValidCertificateFound";
/// The Go agent's spelling.
pub const OTHER_DATA: &str = "AdditonalSecretDataChanged";
const DUE: &str = "CertificateRotationStarted";

/// Validates `data` for the agent `names`, and compares the hub with the `bootstrap` kubeconfig's, if there is one.
/// The rules are ocm's (`pkg/registration/register/common.go:86-145`); also, the key must match the certificate.
pub fn validate(
    data: &Data,
    bootstrap: Option<&Hub>,
    names: &AgentNames,
    clocks: Clocks,
) -> Validation {
    let (identity, chain) = certificate(data, &names.subject(), clocks)?;
    let hub =
        Hub::of_secret(SUBJECT, data).map_err(|error| unusable(OTHER_DATA, error.problem()))?;
    let config = match config(data, &identity) {
        Ok(config) => Some(config),
        // A kubeconfig for the bootstrap kubeconfig's hub will replace it.
        Err(_) if bootstrap.is_some() => None,
        Err(reason) => return Err(unusable(OTHER_DATA, reason)),
    };
    let reached = bootstrap.is_none_or(|to| hub.is_checked_as(to));
    let known = said(data, CLUSTER_NAME, &names.cluster) && said(data, AGENT_NAME, &names.agent);
    let stale = config.is_none() || !reached || !known;
    let moved = bootstrap.and_then(|bootstrap| hub.differs_from(bootstrap));
    Ok(UsableCredential { identity, chain, hub, moved, config, stale })
}

/// Returns the objection to a certificate, if any, as the predicate of a sentence about it.
pub fn objection(chain: &[X509Certificate], subject: &Subject, clocks: Clocks) -> Option<String> {
    let Some(leaf) = chain.first() else { return Some("is not there".into()) };
    let (groups, units) = (once(&leaf.organizations), once(&leaf.units));
    if leaf.common_name != subject.user {
        let name = quoted(&leaf.common_name);
        return Some(format!("is for user {name:?}, not {:?}", subject.user));
    }
    if groups != subject.groups || units != subject.units {
        let found = quoted(&[groups, units].concat().join(", "));
        return Some(format!("is for other groups or units: {found:?}"));
    }
    if let Some(expired) = chain.iter().find(|it| clocks.are_past(it.not_after)) {
        return Some(format!("expired at {}", seconds_time(expired.not_after)));
    }
    let early = clocks.are_before(leaf.not_before, TOLERANCE);
    early.then(|| format!("is not valid before {}", seconds_time(leaf.not_before)))
}

/// Returns sorted texts without duplicates: upstream compares sets.
fn once(sorted: &[String]) -> Vec<String> {
    let mut texts = sorted.to_vec();
    texts.dedup();
    texts
}

pub fn certificate(
    data: &Data,
    subject: &Subject,
    clocks: Clocks,
) -> Result<(KeyPair, Vec<X509Certificate>), UnusableCredential> {
    if data.is_empty() {
        return Err(unusable(NOT_VALID, "is empty"));
    }
    let file = |name: &str| data.get(name).filter(|bytes| !bytes.is_empty()).cloned();
    let certificate = file("tls.crt").ok_or_else(|| unusable(UNREADABLE, "has no tls.crt"))?;
    let key = file("tls.key").ok_or_else(|| unusable(NOT_VALID, "has no tls.key"))?;
    let chain = certificate::chain(&certificate)
        .map_err(|what| unusable(UNREADABLE, format!("has a tls.crt that {what}")))?;
    if let Some(what) = objection(&chain, subject, clocks) {
        return Err(unusable(NOT_VALID, format!("has a certificate that {what}")));
    }
    check_pair(&certificate, &key).map_err(|what| unusable(NOT_VALID, what))?;
    Ok((KeyPair { certificate: certificate.to_vec(), key }, chain))
}

/// Returns the kubeconfig's connection, if it authenticates as the certificate's user, or the problem, as a predicate.
pub fn config(data: &Data, identity: &KeyPair) -> Result<ClusterConfig, String> {
    let config =
        kubeconfig::from_secret(SUBJECT, data).map_err(|error| error.problem().to_owned())?;
    // Without TLS the certificate is not used.
    let shown = config.identity.as_ref() == Some(identity) || !config.server.starts_with("https:");
    match shown && config.auth == Auth::None {
        true => Ok(config),
        false => Err("has a kubeconfig whose user is not that of tls.crt".into()),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Need {
    Nothing(Duration),
    /// The certificate is valid; the rest of the Secret needs a repair.
    Repair,
    Certificate(NeedReason),
}

/// The reason for another certificate: upstream's word for the Event, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NeedReason {
    pub(crate) event: &'static str,
    pub(crate) sentence: String,
}

impl NeedReason {
    /// Returns whether the current certificate is valid, and only due for rotation.
    pub(super) fn is_regular(&self) -> bool {
        self.event == DUE
    }
}

/// Returns the need of the credential in `what` ("Secret ns/name"), whose certificate is due in `due_in`. It is
/// `refused` if the hub has answered only 401 for a while.
pub(crate) fn need(what: &str, validation: &Validation, due_in: Duration, refused: bool) -> Need {
    let (event, sentence) = match validation {
        Err(UnusableCredential { reason, event }) => (*event, format!("{what} {reason}")),
        Ok(UsableCredential { moved: Some(word), .. }) => (
            OTHER_DATA,
            format!("{what} is for another hub than the bootstrap kubeconfig: the {word} differs"),
        ),
        Ok(_) if refused => (
            "HubKubeConfigUnauthorized",
            format!("the hub does not accept the certificate in {what}"),
        ),
        Ok(_) if due_in.is_zero() => {
            (DUE, format!("the certificate in {what} is due for rotation"))
        }
        Ok(usable) if usable.stale => return Need::Repair,
        Ok(_) => return Need::Nothing(due_in),
    };
    Need::Certificate(NeedReason { event, sentence })
}

#[cfg(test)]
mod tests;
