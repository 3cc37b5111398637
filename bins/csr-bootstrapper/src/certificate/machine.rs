//! How one certificate is got, step by step. No I/O, no clock.

use std::time::{Duration, Instant};

use serde_json::Value;
use shared::kubeconfig::Hub;

use super::{
    csr::Request,
    csr_status::Signing,
    need::{Asker, Need},
};

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
    /// Read the CSR on the hub.
    Look,
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

impl Step {
    /// Whether it is the hub that has to answer.
    pub(crate) fn is_on_the_hub(&self) -> bool {
        matches!(self, Self::Count | Self::Introduce | Self::Look | Self::Post | Self::Gone)
    }
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
    /// About to be seen, or of no matter.
    Coming,
    /// Not seen for too long.
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
/// A certificate that was used until it was due, however short it is, and the next one.
const PACE: Duration = Duration::from_secs(5);
/// A write of the Secret that did not last, and the next one; twice as long each time.
const PACE_OF_REPEATS: Duration = Duration::from_secs(1);
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
    /// The CSR with the certificate, and whose it is: a hub sweeps it away after an hour, saved or not.
    pub(crate) issued: Option<(Hub, Value)>,
    /// The requests on the hub were counted, there is room for one more.
    counted: bool,
    introduce_at: Option<Instant>,
    /// Ends in a row.
    ends: u32,
    /// Until then nothing is asked as this identity.
    rest: Option<(Instant, Option<Asker>)>,
    /// What rests is over: the next request needs a key of its own.
    ended: bool,
    /// After a failure nothing is asked as this identity until then; as nobody: nothing is done at all.
    failed: Option<(Instant, Option<Asker>)>,
    saved: Option<Instant>,
    /// Writes of the Secret in a row that did not last.
    repeats: u32,
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
        let served = |request: &Request| credential_key == Some(request.key.as_bytes());
        if let Some(wait) = self.failing(None, now) {
            return wait;
        }
        match need {
            Need::Repair => self.paced(false, now).unwrap_or(Step::Repair),
            Need::Nothing(_) if self.request.as_ref().is_some_and(served) => Step::Forget,
            Need::Nothing(time) => Step::Wait(now + *time),
            Need::Certificate(why) => match (asker, &self.request) {
                (None, _) => later,
                // The key of a certificate that is in use already asks for no other one.
                (Some(asker), Some(request)) if !self.ended && !served(request) => {
                    self.ask(asker, csr, now)
                }
                (Some(asker), _) => {
                    let wait = self.resting(asker, now);
                    wait.or_else(|| self.paced(why.regular, now))
                        .unwrap_or_else(|| self.new_request())
                }
            },
        }
    }

    /// A wait, if a failure as this identity was too short a time ago.
    fn failing(&self, asker: Option<Asker>, now: Instant) -> Option<Step> {
        let (until, of) = self.failed?;
        (now < until && of == asker).then_some(Step::Wait(until))
    }

    /// A wait, if this identity rests or has just failed.
    fn resting(&self, asker: Asker, now: Instant) -> Option<Step> {
        let resting = self.rest.filter(|(until, of)| now < *until && *of == Some(asker));
        let resting = resting.map(|(until, _)| Step::Wait(until));
        resting.or_else(|| self.failing(Some(asker), now))
    }

    /// Whether the request came to an end that is no certificate.
    pub(crate) fn is_over(&self) -> bool {
        self.ended
    }

    fn new_request(&self) -> Step {
        if self.counted { Step::Store } else { Step::Count }
    }

    /// A wait, if the Secret was written too short a time ago to write it again.
    fn paced(&self, regular: bool, now: Instant) -> Option<Step> {
        let repeats = PACE_OF_REPEATS.saturating_mul(1 << self.repeats.min(12)).min(LONGEST_REST);
        let pace = if regular && self.repeats == 0 { PACE } else { repeats };
        let until = self.saved? + pace;
        (now < until).then_some(Step::Wait(until))
    }

    fn ask(&self, asker: Asker, csr: &Csr, now: Instant) -> Step {
        if let Csr::Seen(Signing::Issued(pem)) = csr {
            return self.paced(false, now).unwrap_or_else(|| Step::Save(pem.clone()));
        }
        if let Some(wait) = self.resting(asker, now) {
            return wait;
        }
        let introduce = self.introduce_at.is_none_or(|at| now >= at);
        if asker == Asker::Bootstrap && introduce {
            return Step::Introduce;
        }
        let end = |reason, what: &str, rest| Step::End(End { reason, what: what.to_owned(), rest });
        match csr {
            Csr::Coming => Step::Wait(now + REST_SHORT),
            Csr::Unknown => Step::Look,
            Csr::Absent if self.uid.is_some() => Step::Gone,
            Csr::Absent => Step::Post,
            Csr::Seen(signing) => match signing {
                Signing::Pending | Signing::Approved | Signing::Issued(_) => {
                    Step::Wait(now + LONGEST_REST)
                }
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
        (self.uid, self.issued) = (None, None);
        (self.counted, self.ended) = (false, false);
    }

    /// The hub knows the cluster; `random` is uniform in [0, 1).
    pub(crate) fn introduced(&mut self, now: Instant, random: f64) {
        self.introduce_at = Some(now + INTRODUCE_AGAIN + INTRODUCE_AGAIN.mul_f64(random));
    }

    /// The identity may not introduce the cluster: somebody else may, or may give it the right. Returns
    /// whether that is news.
    pub(crate) fn not_introduced(&mut self, now: Instant) -> bool {
        self.introduce_at.replace(now + REST_REFUSED).is_none()
    }

    /// The request of `asker` came to `end`; returns how long it rests. `random` is uniform in [0, 1).
    pub(crate) fn ended(
        &mut self,
        end: &End,
        asker: Option<Asker>,
        now: Instant,
        random: f64,
    ) -> Duration {
        (self.ended, self.issued) = (true, None);
        self.rest_after_end(end.rest, asker, now, random)
    }

    /// The CSR is gone from the hub without an answer; returns how long the request rests.
    pub(crate) fn gone(&mut self, asker: Asker, now: Instant, random: f64) -> Duration {
        self.uid = None;
        self.rest_after_end(REST_SHORT, Some(asker), now, random)
    }

    /// Twice as long after each end in a row.
    fn rest_after_end(
        &mut self,
        shortest: Duration,
        asker: Option<Asker>,
        now: Instant,
        random: f64,
    ) -> Duration {
        let rest = shortest.saturating_mul(1 << self.ends.min(8)).min(LONGEST_REST);
        // A fleet that was denied together does not come back together.
        let rest = rest + rest.mul_f64(random / 4.0);
        self.ends = self.ends.saturating_add(1);
        self.rest = Some((now + rest, asker));
        rest
    }

    /// The hub has too many requests: `asker` asks for nothing for `time`.
    pub(crate) fn halted(&mut self, asker: Asker, now: Instant, time: Duration) {
        self.rest = Some((now + time, Some(asker)));
    }

    /// A step of `asker` on the hub failed, or another one: nothing of its kind is done for `time`.
    pub(crate) fn failed(&mut self, now: Instant, time: Duration, asker: Option<Asker>) {
        self.failed = Some((now + time, asker));
    }

    /// A certificate was saved; `regular` if the one before was due.
    pub(crate) fn succeeded(&mut self, regular: bool, now: Instant) {
        (self.ends, self.rest) = (0, None);
        self.repeats = if regular { 0 } else { self.repeats.saturating_add(1) };
        self.saved = Some(now);
    }

    /// What is beside the certificate was put right.
    pub(crate) fn repaired(&mut self, now: Instant) {
        self.repeats = self.repeats.saturating_add(1);
        self.saved = Some(now);
    }

    /// There is another bootstrap kubeconfig than when a rest or a wait began.
    pub(crate) fn changed(&mut self) {
        (self.rest, self.failed, self.introduce_at) = (None, None, None);
        (self.ends, self.repeats) = (0, 0);
    }
}

#[cfg(test)]
mod tests;
