//! What the credential needs, and with which identity the hub is asked for it. No I/O, no clock.

use std::time::{Duration, SystemTime};

use crate::validity::{Unusable, Verdict};

/// Whether there is something to do about the credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing for this long.
    Nothing(Duration),
    /// The certificate is good, what is beside it in the Secret is to be put right.
    Repair,
    /// Another certificate.
    Certificate(Why),
}

/// Why another certificate is needed: upstream's word for the Event, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Why {
    pub(crate) event: &'static str,
    pub(crate) sentence: String,
    /// The certificate before is good and merely old.
    pub(crate) regular: bool,
}

/// What the credential in `what` ("Secret ns/name") needs at `now`; `due` is when its certificate is to be
/// rotated, `refused` whether the hub has answered nothing but 401 to it for a while.
pub(crate) fn need(
    what: &str,
    verdict: &Verdict,
    due: Option<SystemTime>,
    refused: bool,
    now: SystemTime,
) -> Need {
    let certificate = |event, sentence| Need::Certificate(Why { event, sentence, regular: false });
    match (verdict, due) {
        (Verdict::Unusable(Unusable { reason, event }), _) => {
            certificate(event, format!("{what} {reason}"))
        }
        (Verdict::Moved(_, word), _) => certificate(
            "AdditonalSecretDataChanged",
            format!("{what} is for another hub than the bootstrap kubeconfig: the {word} differs"),
        ),
        _ if refused => certificate(
            "HubKubeConfigUnauthorized",
            format!("the hub does not accept the certificate in {what}"),
        ),
        (_, Some(due)) if now >= due => Need::Certificate(Why {
            event: "CertificateRotationStarted",
            sentence: format!("the certificate in {what} is due for rotation"),
            regular: true,
        }),
        (Verdict::Usable(usable), _) if usable.stale => Need::Repair,
        (_, due) => {
            Need::Nothing(due.and_then(|due| due.duration_since(now).ok()).unwrap_or_default())
        }
    }
}

/// With which identity the hub is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The agent's own, which the hub renews without a human.
    Agent,
    /// The agent's own, at the address where the bootstrap kubeconfig says that the hub is now.
    Moved,
    /// That of the bootstrap kubeconfig.
    Bootstrap,
}

/// Which identities there are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Identities {
    /// A session with a certificate that has not expired.
    pub(crate) agent: bool,
    /// The hub answers 401 to it.
    pub(crate) agent_refused: bool,
    /// The hub at the new address does not know the agent.
    pub(crate) moved_refused: bool,
    /// There is no answer from the new address, and the certificate for the old one is due.
    pub(crate) moved_away: bool,
    pub(crate) bootstrap: bool,
}

/// Who asks for the certificate: the bootstrap identity only if no other will do.
pub(crate) fn asker(verdict: &Verdict, identities: Identities) -> Option<Asker> {
    let bootstrap = identities.bootstrap.then_some(Asker::Bootstrap);
    let agent = identities.agent && !identities.agent_refused;
    match verdict {
        // A hub that is not there yet is no reason to lose the one that is.
        Verdict::Moved(..) if identities.moved_away && agent => Some(Asker::Agent),
        Verdict::Moved(..) if identities.bootstrap && !identities.moved_refused => {
            Some(Asker::Moved)
        }
        Verdict::Moved(..) => bootstrap,
        _ if agent => Some(Asker::Agent),
        _ => bootstrap,
    }
}

#[cfg(test)]
mod tests;
