//! How one certificate is got, step by step. No I/O, no clock.

use std::time::{Duration, Instant};

use serde_json::Value;
use shared::kubeconfig::Hub;

use super::{
    csr::CertificateRequest,
    csr_status::CsrStatus,
    need::{Need, Requester},
};

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CertificateAction {
    /// Nothing before this instant, or before something changes.
    Wait(Instant),
    /// Count the requests that wait on the hub already.
    CountPending,
    /// Make a key and a request, and store them.
    StoreRequest,
    /// Make the ManagedCluster, if there is none.
    CreateManagedCluster,
    /// Read the CSR on the hub.
    GetCsr,
    /// Post the request.
    CreateCsr,
    /// The CSR that was there is not any more: make sure, and post the same again.
    ConfirmGone,
    /// Put this certificate into the Secret.
    SaveCertificate(Vec<u8>),
    /// Put right what is beside the certificate.
    RepairSecret,
    /// Remove the stored request: it has served, or never will.
    DeleteRequest,
    /// The request came to this end: tell it, and rest.
    AbandonCsr(CsrFailure),
}

impl CertificateAction {
    /// Whether it is the hub that has to answer.
    pub(crate) fn is_on_the_hub(&self) -> bool {
        matches!(
            self,
            Self::CountPending
                | Self::CreateManagedCluster
                | Self::GetCsr
                | Self::CreateCsr
                | Self::ConfirmGone
        )
    }
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

    /// The shortest rest before the next key.
    fn rest(&self) -> Duration {
        match self {
            Self::Denied(_) | Self::Failed(_) => REST_REFUSED,
            Self::Rejected(_) | Self::Replaced => REST_WRONG,
            Self::Foreign => REST_SHORT,
        }
    }
}

/// The CSR on the hub, as far as it is known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ObservedCsr {
    /// About to be seen, or of no matter.
    Awaited,
    /// Not seen for too long.
    Unknown,
    /// There is none.
    Absent,
    /// There is one, and it means this.
    Present(CsrStatus),
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
pub(crate) struct CsrMachine {
    /// The request that is stored, if one is.
    pub(crate) request: Option<CertificateRequest>,
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
    rest: Option<(Instant, Option<Requester>)>,
    /// What rests is over: the next request needs a key of its own.
    ended: bool,
    /// After a failure nothing is asked as this identity until then; as nobody: nothing is done at all.
    failed: Option<(Instant, Option<Requester>)>,
    saved: Option<Instant>,
    /// Writes of the Secret in a row that did not last.
    repeats: u32,
}

impl CsrMachine {
    /// What to do now. `credential_key` is the key in the Secret.
    pub(crate) fn next(
        &self,
        need: &Need,
        requester: Option<Requester>,
        csr: &ObservedCsr,
        credential_key: Option<&[u8]>,
        now: Instant,
    ) -> CertificateAction {
        let later = CertificateAction::Wait(now + LONGEST_REST);
        let served = |request: &CertificateRequest| credential_key == Some(request.key.as_bytes());
        if let Some(wait) = self.failing(None, now) {
            return wait;
        }
        match need {
            Need::Repair => self.paced(false, now).unwrap_or(CertificateAction::RepairSecret),
            Need::Nothing(_) if self.request.as_ref().is_some_and(served) => {
                CertificateAction::DeleteRequest
            }
            Need::Nothing(time) => CertificateAction::Wait(now + *time),
            Need::Certificate(why) => match (requester, &self.request) {
                (None, _) => later,
                // The key of a certificate that is in use already asks for no other one.
                (Some(requester), Some(request)) if !self.ended && !served(request) => {
                    self.ask(requester, csr, now)
                }
                (Some(requester), _) => {
                    let wait = self.resting(requester, now);
                    wait.or_else(|| self.paced(why.regular, now))
                        .unwrap_or_else(|| self.new_request())
                }
            },
        }
    }

    /// A wait, if a failure as this identity was too short a time ago.
    fn failing(&self, requester: Option<Requester>, now: Instant) -> Option<CertificateAction> {
        let (until, of) = self.failed?;
        (now < until && of == requester).then_some(CertificateAction::Wait(until))
    }

    /// A wait, if this identity rests or has just failed.
    fn resting(&self, requester: Requester, now: Instant) -> Option<CertificateAction> {
        let resting = self.rest.filter(|(until, of)| now < *until && *of == Some(requester));
        let resting = resting.map(|(until, _)| CertificateAction::Wait(until));
        resting.or_else(|| self.failing(Some(requester), now))
    }

    /// Whether the request came to an end that is no certificate.
    pub(crate) fn is_over(&self) -> bool {
        self.ended
    }

    fn new_request(&self) -> CertificateAction {
        if self.counted { CertificateAction::StoreRequest } else { CertificateAction::CountPending }
    }

    /// A wait, if the Secret was written too short a time ago to write it again.
    fn paced(&self, regular: bool, now: Instant) -> Option<CertificateAction> {
        let repeats = PACE_OF_REPEATS.saturating_mul(1 << self.repeats.min(12)).min(LONGEST_REST);
        let pace = if regular && self.repeats == 0 { PACE } else { repeats };
        let until = self.saved? + pace;
        (now < until).then_some(CertificateAction::Wait(until))
    }

    fn ask(&self, requester: Requester, csr: &ObservedCsr, now: Instant) -> CertificateAction {
        if let ObservedCsr::Present(CsrStatus::Issued(pem)) = csr {
            return self
                .paced(false, now)
                .unwrap_or_else(|| CertificateAction::SaveCertificate(pem.clone()));
        }
        if let Some(wait) = self.resting(requester, now) {
            return wait;
        }
        let introduce = self.introduce_at.is_none_or(|at| now >= at);
        if requester == Requester::Bootstrap && introduce {
            return CertificateAction::CreateManagedCluster;
        }
        let abandon = CertificateAction::AbandonCsr;
        match csr {
            ObservedCsr::Awaited => CertificateAction::Wait(now + REST_SHORT),
            ObservedCsr::Unknown => CertificateAction::GetCsr,
            ObservedCsr::Absent if self.uid.is_some() => CertificateAction::ConfirmGone,
            ObservedCsr::Absent => CertificateAction::CreateCsr,
            ObservedCsr::Present(signing) => match signing {
                CsrStatus::Pending | CsrStatus::Approved | CsrStatus::Issued(_) => {
                    CertificateAction::Wait(now + LONGEST_REST)
                }
                CsrStatus::Denied(why) => abandon(CsrFailure::Denied(why.clone())),
                CsrStatus::Failed(why) => abandon(CsrFailure::Failed(why.clone())),
                CsrStatus::Wrong(why) => abandon(CsrFailure::Rejected(why.clone())),
                CsrStatus::Replaced => abandon(CsrFailure::Replaced),
                CsrStatus::Foreign => abandon(CsrFailure::Foreign),
            },
        }
    }

    /// There is room on the hub for one more request.
    pub(crate) fn counted(&mut self) {
        self.counted = true;
    }

    /// `request` is stored.
    pub(crate) fn stored(&mut self, request: Option<CertificateRequest>) {
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
        end: &CsrFailure,
        requester: Option<Requester>,
        now: Instant,
        random: f64,
    ) -> Duration {
        (self.ended, self.issued) = (true, None);
        self.rest_after_end(end.rest(), requester, now, random)
    }

    /// The CSR is gone from the hub without an answer; returns how long the request rests.
    pub(crate) fn gone(&mut self, requester: Requester, now: Instant, random: f64) -> Duration {
        self.uid = None;
        self.rest_after_end(REST_SHORT, Some(requester), now, random)
    }

    /// Twice as long after each end in a row.
    fn rest_after_end(
        &mut self,
        shortest: Duration,
        requester: Option<Requester>,
        now: Instant,
        random: f64,
    ) -> Duration {
        let rest = shortest.saturating_mul(1 << self.ends.min(8)).min(LONGEST_REST);
        // A fleet that was denied together does not come back together.
        let rest = rest + rest.mul_f64(random / 4.0);
        self.ends = self.ends.saturating_add(1);
        self.rest = Some((now + rest, requester));
        rest
    }

    /// The hub has too many requests: `asker` asks for nothing for `time`.
    pub(crate) fn halted(&mut self, requester: Requester, now: Instant, time: Duration) {
        self.rest = Some((now + time, Some(requester)));
    }

    /// A step of `asker` on the hub failed, or another one: nothing of its kind is done for `time`.
    pub(crate) fn failed(&mut self, now: Instant, time: Duration, requester: Option<Requester>) {
        self.failed = Some((now + time, requester));
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
