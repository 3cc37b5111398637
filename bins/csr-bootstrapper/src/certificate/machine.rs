//! State machine of one certificate: an observation and the history so far give the next action. No I/O, no
//! clock.

use std::time::{Duration, Instant};

use apiclient::error::Result;
use serde_json::Value;

use super::{
    csr::CertificateRequest,
    csr_status::{CsrFailure, CsrStatus, IssuedCsr, ObservedCsr},
    need::{HubMove, Need, Requester},
    observe::{ObservedCredential, SessionChange},
    pacing::{LONGEST_REST, Pacing, REST_REFUSED, REST_SHORT, SHORT_RESTS, rests_after},
};

/// As upstream, the ManagedCluster is checked every one to two hours while bootstrapping
/// (ocm `pkg/registration/spoke/registration/creating_controller.go:46`).
const INTRODUCE_AGAIN: Duration = Duration::from_secs(3600);

/// A pending CSR is announced once more after this (kubelet gives up by then: client-go
/// `util/certificate/certificate_manager.go:48-50`).
const LONG_PENDING: Duration = Duration::from_secs(900);

/// The next action for the certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CertificateAction {
    /// Wait until this instant, or until something changes.
    Wait(Instant),
    /// Use the hub with the credential in the Secret.
    OpenSession,
    /// The same, where another one is in use.
    SwapSession,
    /// Stop using the hub: the certificate has expired.
    CloseSession,
    /// Announce the session.
    AnnounceSession,
    /// Announce why a certificate is needed.
    AnnounceNeed,
    /// Close the requester's client and watch.
    CloseRequester,
    /// Watch the CSR on the hub.
    WatchCsr,
    /// Announce the approval that the CSR waits for; `overdue` writes an Event.
    AnnouncePending { overdue: bool },
    /// Count the pending requests on the hub.
    CountPending,
    /// Create a key and a request, and store them.
    StoreRequest,
    /// Create the ManagedCluster, if there is none.
    CreateManagedCluster,
    /// Read the CSR on the hub.
    GetCsr,
    /// Post the request.
    CreateCsr,
    /// Confirm that the CSR is gone, and post the same again.
    ConfirmGone,
    /// Save this certificate in the Secret.
    SaveCertificate(Vec<u8>),
    /// Repair the rest of the Secret, next to the certificate.
    RepairSecret,
    /// Delete the stored request: it has served, or never will.
    DeleteRequest,
    /// Announce the request's failure, and rest.
    AbandonCsr(CsrFailure),
}

impl CertificateAction {
    /// Returns whether the hub has to answer.
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

    /// Returns whether it only prepares the next action, which follows in the same turn.
    pub(crate) fn is_preparation(&self) -> bool {
        matches!(
            self,
            Self::OpenSession
                | Self::SwapSession
                | Self::CloseSession
                | Self::AnnounceSession
                | Self::AnnounceNeed
                | Self::CloseRequester
                | Self::WatchCsr
                | Self::AnnouncePending { .. }
        )
    }
}

/// The history of a certificate so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CsrMachine {
    /// The stored request, if there is one.
    request: Option<CertificateRequest>,
    /// uid of its CSR, if this process posted it.
    uid: Option<String>,
    /// The CSR with the certificate: a hub removes it after an hour, saved or not.
    issued: Option<IssuedCsr>,
    /// The need that was announced last.
    announced: Option<String>,
    /// Set while the CSR is pending on the hub.
    waiting: Option<Waiting>,
    /// The answers of two hubs, while the credential moves from one to the other.
    hub_move: HubMove,
    /// The last certificate of this process, and the end of its least use.
    obtained: Option<(Vec<u8>, Instant)>,
    /// The requests on the hub were counted, and there is room for one more.
    counted: bool,
    introduce_at: Option<Instant>,
    /// The request ended without a certificate: the next one needs a key of its own.
    ended: bool,
    pacing: Pacing,
}

/// A CSR that waits for approval or signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    since: Instant,
    announced: bool,
    /// The long wait was announced.
    overdue: bool,
}

impl CsrMachine {
    /// Starts with the request that an earlier process stored.
    pub(crate) fn new(request: Option<CertificateRequest>) -> Self {
        Self { request, ..Self::default() }
    }

    /// The next action: first for the session, then announcements, then for the request.
    pub(crate) fn next(&self, observed: &ObservedCredential, now: Instant) -> CertificateAction {
        match observed.session {
            SessionChange::Open(..) => return CertificateAction::OpenSession,
            SessionChange::Swap(..) => return CertificateAction::SwapSession,
            SessionChange::Close => return CertificateAction::CloseSession,
            SessionChange::Announce(_) => return CertificateAction::AnnounceSession,
            SessionChange::Nothing => {}
        }
        if self.announced != observed.sentence && !observed.selecting {
            return CertificateAction::AnnounceNeed;
        }
        let open = observed.requester_open || self.issued.is_some() || self.waiting.is_some();
        if open && !matches!(observed.need, Need::Certificate(_)) {
            return CertificateAction::CloseRequester;
        }
        if observed.csr == ObservedCsr::Unwatched {
            return CertificateAction::WatchCsr;
        }
        if let (Some(waiting), Some(_)) = (self.waiting, &observed.pending) {
            let overdue = now.saturating_duration_since(waiting.since) >= LONG_PENDING;
            if !waiting.announced || (overdue && !waiting.overdue) {
                return CertificateAction::AnnouncePending { overdue };
            }
        }
        let key = observed.data.get("tls.key").map(|key| key.as_slice());
        self.next_for_request(&observed.need, observed.requester, &observed.csr, key, now)
    }

    /// The next action for the request. `credential_key` is the key in the Secret.
    fn next_for_request(
        &self,
        need: &Need,
        requester: Option<Requester>,
        csr: &ObservedCsr,
        credential_key: Option<&[u8]>,
        now: Instant,
    ) -> CertificateAction {
        let later = CertificateAction::Wait(now + LONGEST_REST);
        let served = |request: &CertificateRequest| credential_key == Some(request.key.as_bytes());
        if let Some(until) = self.pacing.failing(None, now) {
            return CertificateAction::Wait(until);
        }
        match need {
            Need::Repair => {
                let paced = self.pacing.next_write(false, now);
                paced.map_or(CertificateAction::RepairSecret, CertificateAction::Wait)
            }
            Need::Nothing(_) if self.request.as_ref().is_some_and(served) => {
                CertificateAction::DeleteRequest
            }
            Need::Nothing(time) => CertificateAction::Wait(now + *time),
            Need::Certificate(why) => match (requester, &self.request) {
                (None, _) => later,
                // A key in use gets no other certificate.
                (Some(requester), Some(request)) if !self.ended && !served(request) => {
                    self.ask(requester, csr, now)
                }
                (Some(requester), _) => {
                    let resting = self.pacing.resting(requester, now);
                    match resting.or_else(|| self.pacing.next_write(why.regular, now)) {
                        Some(until) => CertificateAction::Wait(until),
                        None if self.counted => CertificateAction::StoreRequest,
                        None => CertificateAction::CountPending,
                    }
                }
            },
        }
    }

    fn ask(&self, requester: Requester, csr: &ObservedCsr, now: Instant) -> CertificateAction {
        if let ObservedCsr::Present(CsrStatus::Issued(pem)) = csr {
            let save = || CertificateAction::SaveCertificate(pem.clone());
            return self.pacing.next_write(false, now).map_or_else(save, CertificateAction::Wait);
        }
        if let Some(until) = self.pacing.resting(requester, now) {
            return CertificateAction::Wait(until);
        }
        let introduce = self.introduce_at.is_none_or(|at| now >= at);
        if requester == Requester::Bootstrap && introduce {
            return CertificateAction::CreateManagedCluster;
        }
        match csr {
            ObservedCsr::Awaited | ObservedCsr::Unwatched => {
                CertificateAction::Wait(now + REST_SHORT)
            }
            ObservedCsr::Unknown => CertificateAction::GetCsr,
            ObservedCsr::Absent if self.uid.is_some() => CertificateAction::ConfirmGone,
            ObservedCsr::Absent => CertificateAction::CreateCsr,
            ObservedCsr::Present(status) => match status.failure() {
                Some(failure) => CertificateAction::AbandonCsr(failure),
                None => CertificateAction::Wait(now + LONGEST_REST),
            },
        }
    }

    /// The stored request, if there is one.
    pub(crate) fn request(&self) -> Option<&CertificateRequest> {
        self.request.as_ref()
    }

    /// The stored request, unless it ended without a certificate.
    pub(crate) fn open_request(&self) -> Option<&CertificateRequest> {
        self.request.as_ref().filter(|_| !self.ended)
    }

    /// uid of its CSR, if this process posted it.
    pub(crate) fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    pub(crate) fn issued(&self) -> Option<&IssuedCsr> {
        self.issued.as_ref()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    pub(crate) fn hub_move(&self) -> HubMove {
        self.hub_move
    }

    pub(crate) fn obtained(&self) -> Option<&(Vec<u8>, Instant)> {
        self.obtained.as_ref()
    }

    /// Records an observation.
    pub(crate) fn saw(&mut self, observed: &ObservedCredential, now: Instant) {
        self.hub_move.asks(observed.requester_of_move(), now);
        let (ObservedCsr::Present(status), Some(csr)) = (&observed.csr, &observed.csr_object)
        else {
            return;
        };
        let begun = Waiting { since: now, announced: false, overdue: false };
        self.waiting = observed.pending.as_ref().map(|_| self.waiting.unwrap_or(begun));
        let uid = csr["metadata"]["uid"].as_str();
        self.uid = self.uid.take().or_else(|| uid.map(str::to_owned));
        if let (CsrStatus::Issued(_), Some(hub)) = (status, &observed.requester_hub) {
            self.issued = Some(IssuedCsr { hub: hub.clone(), csr: csr.clone() });
        }
    }

    /// Records the announcement of a need.
    pub(crate) fn need_announced(&mut self, sentence: Option<String>) {
        self.announced = sentence;
    }

    /// Records the announcement of a pending CSR.
    pub(crate) fn pending_announced(&mut self, overdue: bool) {
        if let Some(waiting) = &mut self.waiting {
            (waiting.announced, waiting.overdue) = (true, overdue);
        }
    }

    /// Records that the requester's client and watch are closed.
    pub(crate) fn closed(&mut self) {
        (self.issued, self.waiting) = (None, None);
    }

    /// Records a new watch of the CSR: a uid of one hub means nothing on another.
    pub(crate) fn watched(&mut self) {
        self.uid = None;
    }

    /// Records the posted CSR.
    pub(crate) fn posted(&mut self, csr: &Value) {
        self.uid = csr["metadata"]["uid"].as_str().map(str::to_owned);
    }

    /// Records the hub's answer to a request of `requester`.
    pub(crate) fn answered<T>(&mut self, requester: Requester, result: &Result<T>, now: Instant) {
        self.hub_move.answered(requester, result, now);
    }

    /// Records that the hub has room for one more request.
    pub(crate) fn counted(&mut self) {
        self.counted = true;
    }

    /// Records the stored request.
    pub(crate) fn stored(&mut self, request: Option<CertificateRequest>) {
        self.request = request;
        (self.uid, self.issued) = (None, None);
        (self.counted, self.ended) = (false, false);
    }

    /// Records that the hub knows the cluster; `random` is uniform in [0, 1).
    pub(crate) fn introduced(&mut self, now: Instant, random: f64) {
        self.introduce_at = Some(now + INTRODUCE_AGAIN + INTRODUCE_AGAIN.mul_f64(random));
    }

    /// Records that the identity may not introduce the cluster: somebody else may, or may grant the right.
    /// Returns whether that is news.
    pub(crate) fn not_introduced(&mut self, now: Instant) -> bool {
        self.introduce_at.replace(now + REST_REFUSED).is_none()
    }

    /// Records the `end` of a request of `requester`; returns its rest. `random` is uniform in [0, 1).
    pub(crate) fn ended(
        &mut self,
        end: &CsrFailure,
        requester: Option<Requester>,
        now: Instant,
        random: f64,
    ) -> Duration {
        (self.ended, self.issued) = (true, None);
        self.pacing.ended(rests_after(end), requester, now, random)
    }

    /// Records that the CSR is gone from the hub without an answer; returns the request's rest.
    pub(crate) fn gone(&mut self, requester: Requester, now: Instant, random: f64) -> Duration {
        self.uid = None;
        self.pacing.ended(SHORT_RESTS, Some(requester), now, random)
    }

    /// Records that the hub has too many requests: `requester` rests for `time`.
    pub(crate) fn halted(&mut self, requester: Requester, now: Instant, time: Duration) {
        self.pacing.halted(requester, now + time);
    }

    /// Records a failure: `requester`, or without one everything, waits for `time`.
    pub(crate) fn failed(&mut self, now: Instant, time: Duration, requester: Option<Requester>) {
        self.pacing.failed(requester, now + time);
    }

    /// Records that the certificate in `pem` was saved, with the end of its least use; `regular` if the one
    /// before was due.
    pub(crate) fn saved(&mut self, pem: &[u8], used_until: Instant, regular: bool, now: Instant) {
        self.obtained = Some((pem.to_vec(), used_until));
        self.hub_move = HubMove::default();
        self.pacing.saved(regular, now);
    }

    /// Records that the rest of the Secret was repaired.
    pub(crate) fn repaired(&mut self, now: Instant) {
        self.pacing.repaired(now);
    }

    /// Records another bootstrap kubeconfig than the one of the last rests and waits.
    pub(crate) fn bootstrap_replaced(&mut self, another_hub: bool) {
        if another_hub {
            self.hub_move = HubMove::default();
        }
        self.introduce_at = None;
        self.pacing.restart();
    }
}

#[cfg(test)]
mod tests;
