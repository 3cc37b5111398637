//! Need of the credential, and the identity that requests it. No I/O, no clock.

use std::time::{Duration, Instant};

use apiclient::error::{Error, Result};

use super::validate::{UnusableCredential, Validation};

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

/// The need of the credential in `what` ("Secret ns/name"). Its certificate is due in `due_in`; it is `refused`
/// after a while of nothing but 401 from the hub.
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

/// The identity that requests the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Requester {
    /// The agent's own; the hub approves it without a human.
    Agent,
    /// The agent's own, at the hub's new address from the bootstrap kubeconfig.
    AgentAtNewHub,
    /// The bootstrap kubeconfig's.
    Bootstrap,
}

/// The available identities.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AvailableIdentities {
    /// There is a session whose certificate has not expired by every clock.
    pub(crate) agent: bool,
    /// The hub answers it with 401.
    pub(crate) agent_refused: bool,
    pub(crate) bootstrap: bool,
}

/// The requester of the certificate: the bootstrap identity only if no other will do.
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
        // The old hub is used until the new one is ready, however long that takes.
        Validation::Moved(..) if due && agent && !moving.old_is_away(now) => Some(Requester::Agent),
        Validation::Moved(..) if identities.bootstrap && !moving.new_refuses(now) => {
            Some(Requester::AgentAtNewHub)
        }
        Validation::Unusable(_) | Validation::Usable(_) if agent => Some(Requester::Agent),
        _ => bootstrap,
    }
}

/// The answers of two hubs so far, while the bootstrap kubeconfig leads to another hub than the credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct HubMove {
    /// Start of the time in which the new hub answers nothing but 401 or 403 to the agent.
    refused: Option<Instant>,
    /// Start of the requests to the old hub.
    old_since: Option<Instant>,
    /// The time at which the old hub was given up.
    old_failed: Option<Instant>,
}

/// A hub that was just set up may not know everything yet.
const REFUSED_AFTER: Duration = Duration::from_secs(5);
/// The agent may be known later, and a missing hub may be back.
const TRY_AGAIN: Duration = Duration::from_secs(600);
/// The old hub has this long to renew, and another chance later.
const OLD_PATIENCE: Duration = Duration::from_secs(10);
const OLD_AGAIN: Duration = Duration::from_secs(60);

impl HubMove {
    /// Records the hub's answer to a request of `requester`.
    pub(crate) fn answered<T>(&mut self, requester: Requester, result: &Result<T>, now: Instant) {
        let refusal = matches!(result, Err(Error::Unauthorized(_) | Error::Forbidden(_)));
        match requester {
            Requester::Agent if result.is_err() => self.old_failed = Some(now),
            Requester::Agent => {}
            Requester::AgentAtNewHub if refusal => self.refused = self.refused.or(Some(now)),
            Requester::AgentAtNewHub => self.refused = None,
            // The agent may be known by now.
            Requester::Bootstrap if matches!(result, Err(Error::Unauthorized(_))) => {
                self.refused = None;
            }
            Requester::Bootstrap => {}
        }
    }

    /// Records the `requester` while the hub moves. A request that the old hub leaves pending does not hold
    /// up the move.
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

    /// The time at which the old hub is given up, if it is `requester`'s.
    pub(crate) fn gives_up_at(
        &self,
        requester: Option<Requester>,
        now: Instant,
    ) -> Option<Instant> {
        let of_old = requester.filter(|requester| *requester == Requester::Agent);
        of_old.map(|_| self.old_since.unwrap_or(now) + OLD_PATIENCE)
    }

    /// The time left for the new hub to know the agent, while it refuses the agent.
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
