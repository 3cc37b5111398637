//! The loop that keeps the credential: looks at what is known, takes the step that the registration says,
//! and tells what came of it.

use std::time::{Duration, Instant, SystemTime};

use super::{
    csr_status::{self, CsrStatus},
    machine::{CertificateAction, ObservedCsr},
    need::{Need, Requester},
    observe::ObservedCredential,
    readiness::ready,
    registrar::CertificateManager,
};
use crate::{agent::SLICE, cached::CachedObject};

/// How often it is looked at where somebody waits for the end of it.
const LOOK_ONCE: Duration = Duration::from_secs(1);
/// Beyond the end of a certificate, so that it is over for sure.
const MOMENT: Duration = Duration::from_millis(100);
/// A request that nobody answers is told once more after this (kubelet gives up by then:
/// client-go `util/certificate/certificate_manager.go:48-50`).
const LONG_PENDING: Duration = Duration::from_secs(900);

/// What is done where the credential is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnceGoal {
    /// It is looked at.
    Check,
    /// It is got.
    Obtain,
}

impl CertificateManager<'_> {
    /// Keeps the credential until the end: `None`. If that is not to be, whether it is usable.
    pub(crate) fn keep(mut self, once: Option<OnceGoal>) -> Option<bool> {
        loop {
            let seen = self.agent.stop.wakes();
            self.agent.beat();
            let situation = self.look();
            let step = self.next(&situation);
            // A key that has served does not stay behind, nor a kubeconfig that leads nowhere.
            let settled =
                step != CertificateAction::DeleteRequest && situation.need != Need::Repair;
            let usable = || settled && ready(self.agent).is_ok();
            match once {
                Some(OnceGoal::Check) => return Some(usable()),
                Some(OnceGoal::Obtain) if usable() => return Some(true),
                _ => {}
            }
            if let CertificateAction::Wait(until) = step {
                // Nothing wakes this loop when the files of -hub-kubeconfig-dir change.
                let slice = if once.is_some() { LOOK_ONCE } else { SLICE };
                let until = until.min(Instant::now() + slice);
                let until = situation.again.map_or(until, |again| until.min(again + MOMENT));
                if self.agent.stop.wait_for_change(seen, until) {
                    return None;
                }
            } else {
                let result = self.take(&step, &situation);
                self.conclude(&step, situation.requester, result);
                if self.agent.stop.raised() {
                    return None;
                }
            }
        }
    }

    /// The next step; what is open on the hub for nothing is closed.
    fn next(&mut self, situation: &ObservedCredential) -> CertificateAction {
        let ObservedCredential { need, requester, data, .. } = situation;
        let csr = match (need, requester, &self.registration.request) {
            (Need::Certificate(_), Some(requester), Some(_)) if !self.registration.is_over() => {
                self.csr(*requester, situation)
            }
            (Need::Certificate(_), ..) => ObservedCsr::Awaited,
            _ => {
                self.asking.finish(self.agent);
                self.registration.issued = None;
                self.waits_no_more();
                ObservedCsr::Awaited
            }
        };
        let key = data.get("tls.key").map(|key| key.as_slice());
        self.registration.next(need, *requester, &csr, key, Instant::now())
    }

    /// What the CSR on the hub means, as far as it was seen.
    fn csr(&mut self, requester: Requester, situation: &ObservedCredential) -> ObservedCsr {
        let object = match self.see(requester, situation) {
            Ok(CachedObject::Object(object)) => object,
            Ok(CachedObject::Absent) => return ObservedCsr::Absent,
            Ok(CachedObject::Unknown) => return ObservedCsr::Unknown,
            Err(coming) => return coming,
        };
        let Some(request) = &self.registration.request else { return ObservedCsr::Awaited };
        let by_agent = requester != Requester::Bootstrap;
        let uid = self.registration.uid.as_deref();
        let clocks = self.agent.requester_clocks();
        let signing = csr_status::evaluate(&object, request, uid, by_agent, &self.names, clocks);
        self.tell_waiting(&signing, requester);
        if self.registration.uid.is_none() {
            self.registration.uid = object["metadata"]["uid"].as_str().map(str::to_owned);
        }
        if let CsrStatus::Issued(_) = signing {
            let hub = self.asked_hub(situation).cloned();
            self.registration.issued = hub.map(|hub| (hub, object));
        }
        ObservedCsr::Present(signing)
    }

    /// The CSR: the one with the certificate if that is kept, else as the hub shows it.
    fn see(
        &mut self,
        requester: Requester,
        situation: &ObservedCredential,
    ) -> Result<CachedObject, ObservedCsr> {
        if let Some((hub, csr)) = &self.registration.issued
            && self.asked_hub(situation) == Some(hub)
        {
            return Ok(CachedObject::Object(csr.clone()));
        }
        let Some(request) = &self.registration.request else { return Err(ObservedCsr::Awaited) };
        // A client that cannot be made is told by the next step.
        let client = self.asking.client(self.agent, requester, situation.access(requester));
        let client = client.map_err(|_| ObservedCsr::Unknown)?;
        match self.asking.watch(self.agent, &client, &request.name) {
            // What was posted on one hub says nothing of another.
            Ok(true) => self.registration.uid = None,
            Ok(false) => {}
            Err(error) => {
                log::debug!("{error}");
                return Err(ObservedCsr::Awaited);
            }
        }
        self.asking.csr(Instant::now()).ok_or(ObservedCsr::Awaited)
    }

    /// Says for whom a request waits: on the endpoint at once, aloud when it takes long.
    fn tell_waiting(&mut self, signing: &CsrStatus, requester: Requester) {
        let name = self.registration.request.as_ref().map_or("", |request| &request.name);
        let what = match signing {
            CsrStatus::Pending if requester == Requester::Bootstrap => {
                format!("CSR {name} is not approved yet: kubectl certificate approve {name}")
            }
            CsrStatus::Pending => format!("CSR {name} is not approved by the hub yet"),
            CsrStatus::Approved => {
                format!("CSR {name} is approved, but the hub's signer has not signed it")
            }
            _ => return self.waits_no_more(),
        };
        let first = self.waiting.is_none();
        let (since, told) = self.waiting.get_or_insert_with(|| (Instant::now(), false));
        if !*told && since.elapsed() >= LONG_PENDING {
            *told = true;
            self.agent.record_event("CSRPending", true, &what);
        } else if first {
            log::info!("{what}");
            self.agent.report(|status| status.pending = Some(SystemTime::now()));
        }
        self.agent.report(|status| status.detail = Some(what));
    }

    fn waits_no_more(&mut self) {
        self.waiting = None;
        self.agent.report(|status| status.pending = None);
    }
}
