//! Need of a credential, and the identity that requests it. No I/O, no clock.

use std::time::Duration;

use super::validate::{OTHER_DATA, UnusableCredential, Validation};

/// What the credential needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Need {
    /// Nothing for this long.
    Nothing(Duration),
    /// The certificate is valid; the rest of the Secret needs a repair.
    Repair,
    /// Another certificate.
    Certificate(NeedReason),
}

/// The reason for another certificate: upstream's word for the Event, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NeedReason {
    pub(crate) event: &'static str,
    pub(crate) sentence: String,
    /// The current certificate is still valid; it is only due for rotation.
    pub(crate) regular: bool,
}

/// What the hub of the bootstrap kubeconfig answers to the agent, while the credential is for another hub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum NewHub {
    /// Nothing yet: the old hub counts.
    #[default]
    Silent,
    /// It accepts the certificate: only the kubeconfig has to change.
    KnowsAgent,
    /// It does not know the agent, which has to join.
    RefusesAgent,
}

/// The need of the credential in `what` ("Secret ns/name"). Its certificate is due in `due_in`; it is `refused`
/// after a while of nothing but 401 from the hub.
pub(crate) fn need(
    what: &str,
    validation: &Validation,
    due_in: Option<Duration>,
    refused: bool,
    new_hub: NewHub,
) -> Need {
    let is_due = due_in.is_some_and(|left| left.is_zero());
    let certificate =
        |event, sentence, regular| Need::Certificate(NeedReason { event, sentence, regular });
    match (validation, new_hub) {
        (Validation::Unusable(UnusableCredential { reason, event }), _) => {
            certificate(event, format!("{what} {reason}"), false)
        }
        (Validation::Moved(..), NewHub::KnowsAgent) => Need::Repair,
        (Validation::Moved(_, word), NewHub::RefusesAgent) => {
            certificate(OTHER_DATA, moved(what, word), is_due)
        }
        _ if refused => certificate(
            "HubKubeConfigUnauthorized",
            format!("the hub does not accept the certificate in {what}"),
            false,
        ),
        _ if is_due => certificate(
            "CertificateRotationStarted",
            format!("the certificate in {what} is due for rotation"),
            true,
        ),
        (Validation::Usable(usable), _) if usable.stale => Need::Repair,
        _ => Need::Nothing(due_in.unwrap_or_default()),
    }
}

/// The sentence about a credential whose hub differs from the bootstrap kubeconfig's in `word`.
pub(crate) fn moved(what: &str, word: &str) -> String {
    format!("{what} is for another hub than the bootstrap kubeconfig: the {word} differs")
}

/// The identity that requests the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Requester {
    /// The agent's own; the hub approves it without a human.
    Agent,
    /// The bootstrap kubeconfig's.
    Bootstrap,
}

/// The requester of the certificate: the bootstrap identity only if the agent's own will not do.
pub(crate) fn requester(
    is_agent_valid: bool,
    has_bootstrap: bool,
    new_hub: NewHub,
) -> Option<Requester> {
    if is_agent_valid && new_hub != NewHub::RefusesAgent {
        return Some(Requester::Agent);
    }
    has_bootstrap.then_some(Requester::Bootstrap)
}

#[cfg(test)]
mod tests;
