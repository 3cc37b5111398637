//! How one certificate is got: what is needed, who asks for it, and the next step. No I/O, no clock.

use std::time::{Duration, Instant, SystemTime};

use crate::{
    request::Request,
    signing::Signing,
    validity::{Unusable, Verdict},
};

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
    let certificate = |event, sentence| Need::Certificate(Why { event, sentence });
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
        (_, Some(due)) if now >= due => certificate(
            "CertificateRotationStarted",
            format!("the certificate in {what} is due for rotation"),
        ),
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
    pub(crate) bootstrap: bool,
}

/// Who asks for the certificate: the bootstrap identity only if no other will do.
pub(crate) fn asker(verdict: &Verdict, identities: Identities) -> Option<Asker> {
    let bootstrap = identities.bootstrap.then_some(Asker::Bootstrap);
    match verdict {
        Verdict::Moved(..) if identities.bootstrap && !identities.moved_refused => {
            Some(Asker::Moved)
        }
        Verdict::Moved(..) => bootstrap,
        _ if identities.agent && !identities.agent_refused => Some(Asker::Agent),
        _ => bootstrap,
    }
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing before this instant, or before something changes.
    Wait(Instant),
    /// Count the requests that wait on the hub already.
    Count,
    /// Make a key and a request, and store them.
    Store,
    /// Make the ManagedCluster, if there is none.
    Introduce,
    /// Post the request.
    Post,
    /// The CSR that was there is not any more: make sure, and post the same again.
    Gone,
    /// Put this certificate into the Secret.
    Save(Vec<u8>),
    /// Put right what is beside the certificate.
    Repair,
    /// Remove the stored request: it has served, or never will.
    Forget,
    /// The request came to this end: tell it, and rest.
    End(End),
}

/// An end of a request that is not a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// For the Event.
    pub(crate) reason: &'static str,
    /// To go on after "CSR x ".
    pub(crate) what: String,
    /// The shortest rest before the next key.
    rest: Duration,
}

/// The CSR on the hub, as far as it is known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Csr {
    /// Not looked at yet.
    Unknown,
    /// There is none.
    Absent,
    /// There is one, and it means this.
    Seen(Signing),
}

/// After Denied or Failed: a human or a policy said no, which time alone seldom changes.
const REST_REFUSED: Duration = Duration::from_secs(300);
/// After a certificate that cannot be used, or a request that somebody replaced.
const REST_WRONG: Duration = Duration::from_secs(30);
/// After a request that was made with another identity than the one that asks now, or that somebody
/// deleted.
const REST_SHORT: Duration = Duration::from_secs(2);
/// No rest is longer.
const LONGEST_REST: Duration = Duration::from_secs(3600);
/// As upstream, the ManagedCluster is looked after every one to two hours while bootstrapping
/// (ocm `pkg/registration/spoke/registration/creating_controller.go:46`).
const INTRODUCE_AGAIN: Duration = Duration::from_secs(3600);

/// The state of getting a certificate.
#[derive(Debug, Default)]
pub(crate) struct Registration {
    /// The request that is stored, if one is.
    pub(crate) request: Option<Request>,
    /// uid of the CSR that was posted for it by this process.
    pub(crate) uid: Option<String>,
    /// The requests on the hub were counted, there is room for one more.
    counted: bool,
    introduce_at: Option<Instant>,
    /// Ends in a row.
    ends: u32,
    rest_until: Option<Instant>,
    /// What rests is over: the next request needs a key of its own.
    ended: bool,
}

impl Registration {
    /// What to do now. `credential_key` is the key in the Secret.
    pub(crate) fn next(
        &self,
        need: &Need,
        asker: Option<Asker>,
        csr: &Csr,
        credential_key: Option<&[u8]>,
        now: Instant,
    ) -> Step {
        let later = Step::Wait(now + LONGEST_REST);
        if let Some(until) = self.rest_until.filter(|until| now < *until) {
            return Step::Wait(until);
        }
        let served = |request: &Request| credential_key == Some(request.key.as_bytes());
        match need {
            Need::Nothing(_) | Need::Repair if self.request.as_ref().is_some_and(served) => {
                Step::Forget
            }
            Need::Nothing(time) => Step::Wait(now + *time),
            Need::Repair => Step::Repair,
            Need::Certificate(_) => match (asker, &self.request) {
                (None, _) => later,
                (Some(_), None) => self.new_request(),
                // The key of a certificate that is in use already asks for no other one.
                (Some(_), Some(request)) if self.ended || served(request) => self.new_request(),
                (Some(asker), Some(_)) => self.ask(asker, csr, now),
            },
        }
    }

    fn new_request(&self) -> Step {
        if self.counted { Step::Store } else { Step::Count }
    }

    fn ask(&self, asker: Asker, csr: &Csr, now: Instant) -> Step {
        let introduce = self.introduce_at.is_none_or(|at| now >= at);
        if asker == Asker::Bootstrap && introduce {
            return Step::Introduce;
        }
        let end = |reason, what: &str, rest| Step::End(End { reason, what: what.to_owned(), rest });
        match csr {
            Csr::Unknown => Step::Wait(now + LONGEST_REST),
            Csr::Absent if self.uid.is_some() => Step::Gone,
            Csr::Absent => Step::Post,
            Csr::Seen(signing) => match signing {
                Signing::Pending | Signing::Approved => Step::Wait(now + LONGEST_REST),
                Signing::Issued(pem) => Step::Save(pem.clone()),
                Signing::Denied(why) => end("CSRDenied", why, REST_REFUSED),
                Signing::Failed(why) => end("CSRFailed", why, REST_REFUSED),
                Signing::Wrong(why) => end("CertificateRejected", why, REST_WRONG),
                Signing::Replaced => {
                    end("CSRReplaced", "was replaced by another object of its name", REST_WRONG)
                }
                // Of the other identity of this agent, or of somebody else.
                Signing::Foreign => {
                    end("CSRForeign", "is not what this agent asks for now", REST_SHORT)
                }
            },
        }
    }

    /// There is room on the hub for one more request.
    pub(crate) fn counted(&mut self) {
        self.counted = true;
    }

    /// `request` is stored.
    pub(crate) fn stored(&mut self, request: Option<Request>) {
        self.request = request;
        (self.uid, self.counted, self.ended) = (None, false, false);
    }

    /// The hub knows the cluster; `random` is uniform in [0, 1).
    pub(crate) fn introduced(&mut self, now: Instant, random: f64) {
        self.introduce_at = Some(now + INTRODUCE_AGAIN + INTRODUCE_AGAIN.mul_f64(random));
    }

    /// The request came to `end`; returns how long it rests. `random` is uniform in [0, 1).
    pub(crate) fn ended(&mut self, end: &End, now: Instant, random: f64) -> Duration {
        self.ended = true;
        self.rest_after_end(end.rest, now, random)
    }

    /// The CSR is gone from the hub without an answer; returns how long the request rests.
    pub(crate) fn gone(&mut self, now: Instant, random: f64) -> Duration {
        self.uid = None;
        self.rest_after_end(REST_SHORT, now, random)
    }

    /// Twice as long after each end in a row.
    fn rest_after_end(&mut self, shortest: Duration, now: Instant, random: f64) -> Duration {
        let rest = shortest.saturating_mul(1 << self.ends.min(8)).min(LONGEST_REST);
        // A fleet that was denied together does not come back together.
        let rest = rest + rest.mul_f64(random / 4.0);
        self.ends = self.ends.saturating_add(1);
        self.rest(now, rest);
        rest
    }

    /// Nothing is done for `time`.
    pub(crate) fn rest(&mut self, now: Instant, time: Duration) {
        self.rest_until = Some(now + time);
    }

    /// A certificate was issued and saved.
    pub(crate) fn succeeded(&mut self) {
        (self.ends, self.rest_until) = (0, None);
    }

    /// Something else is true now than when the rest began: a bootstrap kubeconfig, or the Secret.
    pub(crate) fn changed(&mut self) {
        (self.rest_until, self.introduce_at) = (None, None);
    }
}

#[cfg(test)]
mod tests;
