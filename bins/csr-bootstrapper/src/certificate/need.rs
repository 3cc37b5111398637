//! The need of the credential, and with which identity the hub is asked for it. No I/O, no clock.

use std::time::{Duration, Instant};

use shared::error::{Error, Result};

use super::validate::{UnusableCredential, Validation};

/// Whether there is something to do about the credential.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Need {
    /// Nothing for this long.
    Nothing(Duration),
    /// The certificate is good, what is beside it in the Secret is to be put right.
    Repair,
    /// Another certificate.
    Certificate(NeedReason),
}

/// Why another certificate is needed: upstream's word for the Event, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NeedReason {
    pub(crate) event: &'static str,
    pub(crate) sentence: String,
    /// The certificate before is good and merely old.
    pub(crate) regular: bool,
}

/// What the credential in `what` ("Secret ns/name") needs; its certificate is to be rotated in `due_in`, and
/// `refused` says whether the hub has answered nothing but 401 to it for a while.
pub(crate) fn need(
    what: &str,
    validation: &Validation,
    due_in: Option<Duration>,
    refused: bool,
) -> Need {
    let is_due = due_in.is_some_and(|left| left.is_zero());
    let certificate =
        |event, sentence| Need::Certificate(NeedReason { event, sentence, regular: false });
    match validation {
        Validation::Unusable(UnusableCredential { reason, event }) => {
            certificate(event, format!("{what} {reason}"))
        }
        Validation::Moved(_, word) => Need::Certificate(NeedReason {
            event: "AdditonalSecretDataChanged",
            sentence: format!(
                "{what} is for another hub than the bootstrap kubeconfig: the {word} differs"
            ),
            regular: is_due,
        }),
        _ if refused => certificate(
            "HubKubeConfigUnauthorized",
            format!("the hub does not accept the certificate in {what}"),
        ),
        _ if is_due => Need::Certificate(NeedReason {
            event: "CertificateRotationStarted",
            sentence: format!("the certificate in {what} is due for rotation"),
            regular: true,
        }),
        Validation::Usable(usable) if usable.stale => Need::Repair,
        Validation::Usable(_) => Need::Nothing(due_in.unwrap_or_default()),
    }
}

/// With which identity the hub is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Requester {
    /// The agent's own, which the hub renews without a human.
    Agent,
    /// The agent's own, at the address where the bootstrap kubeconfig says that the hub is now.
    AgentAtNewHub,
    /// That of the bootstrap kubeconfig.
    Bootstrap,
}

/// Which identities there are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AvailableIdentities {
    /// A session with a certificate that has not expired by every clock.
    pub(crate) agent: bool,
    /// The hub answers 401 to it.
    pub(crate) agent_refused: bool,
    pub(crate) bootstrap: bool,
}

/// Who asks for the certificate: the bootstrap identity only if no other will do.
pub(crate) fn requester(
    validation: &Validation,
    identities: AvailableIdentities,
    moving: &HubMove,
    due: bool,
    now: Instant,
) -> Option<Requester> {
    let agent = identities.agent && !identities.agent_refused;
    let bootstrap = identities.bootstrap.then_some(Requester::Bootstrap);
    match validation {
        // Whatever takes so long at the new hub: the old one is used until then.
        Validation::Moved(..) if due && agent && !moving.old_is_away(now) => Some(Requester::Agent),
        Validation::Moved(..) if identities.bootstrap && !moving.new_refuses(now) => {
            Some(Requester::AgentAtNewHub)
        }
        Validation::Unusable(_) | Validation::Usable(_) if agent => Some(Requester::Agent),
        _ => bootstrap,
    }
}

/// What two hubs have answered so far, while the bootstrap kubeconfig leads to another one than the
/// credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct HubMove {
    /// Since when the new one answers nothing but 401 or 403 to the agent.
    refused: Option<Instant>,
    /// Since when the old one is asked.
    old_since: Option<Instant>,
    /// When the old one was given up.
    old_failed: Option<Instant>,
}

/// A hub that has just been set up may not know everything that it should.
const REFUSED_AFTER: Duration = Duration::from_secs(5);
/// Who was refused may be known later, and who was away may be back.
const TRY_AGAIN: Duration = Duration::from_secs(600);
/// The old hub gets this long to renew, and another chance after that.
const OLD_PATIENCE: Duration = Duration::from_secs(10);
const OLD_AGAIN: Duration = Duration::from_secs(60);

impl HubMove {
    /// The hub answered a request of `requester`.
    pub(crate) fn answered<T>(&mut self, requester: Requester, result: &Result<T>, now: Instant) {
        let refusal = matches!(result, Err(Error::Unauthorized(_) | Error::Forbidden(_)));
        match requester {
            Requester::Agent if result.is_err() => self.old_failed = Some(now),
            Requester::Agent => {}
            Requester::AgentAtNewHub if refusal => self.refused = self.refused.or(Some(now)),
            Requester::AgentAtNewHub => self.refused = None,
            // Then perhaps the agent is known by now.
            Requester::Bootstrap if matches!(result, Err(Error::Unauthorized(_))) => {
                self.refused = None;
            }
            Requester::Bootstrap => {}
        }
    }

    /// While the hub has moved, `requester` asks. A request that the old hub leaves waiting does not hold up
    /// the move.
    pub(crate) fn asks(&mut self, requester: Option<Requester>, now: Instant) {
        let Some(until) = self.gives_up_at(requester, now) else {
            self.old_since = None;
            return;
        };
        if now >= until {
            (self.old_since, self.old_failed) = (None, Some(now));
        } else {
            self.old_since.get_or_insert(now);
        }
    }

    /// When the old hub is given up, if `requester` asks that.
    pub(crate) fn gives_up_at(
        &self,
        requester: Option<Requester>,
        now: Instant,
    ) -> Option<Instant> {
        let of_old = requester.filter(|requester| *requester == Requester::Agent);
        of_old.map(|_| self.old_since.unwrap_or(now) + OLD_PATIENCE)
    }

    /// How long the new hub has left to know the agent, if it is being refused there.
    pub(crate) fn patience(&self, now: Instant) -> Option<Duration> {
        (self.refused? + REFUSED_AFTER).checked_duration_since(now)
    }

    fn new_refuses(&self, now: Instant) -> bool {
        self.refused.is_some_and(|since| {
            let past = now.saturating_duration_since(since);
            (REFUSED_AFTER..TRY_AGAIN).contains(&past)
        })
    }

    fn old_is_away(&self, now: Instant) -> bool {
        self.old_failed.is_some_and(|at| now < at + OLD_AGAIN)
    }
}

#[cfg(test)]
mod tests;
