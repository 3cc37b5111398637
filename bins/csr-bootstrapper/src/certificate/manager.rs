//! The loop that keeps the credential: looks at what is known, takes the step that the registration says,
//! and tells what came of it.

use std::time::{Duration, Instant, SystemTime};

use super::{
    csr_status::{self, Signing},
    machine::{Csr, Step},
    need::{Asker, Need},
    observe::Situation,
    readiness::ready,
    registrar::Registrar,
};
use crate::{agent::SLICE, cached::Sighting};

/// How often it is looked at where somebody waits for the end of it.
const LOOK_ONCE: Duration = Duration::from_secs(1);
/// Beyond the end of a certificate, so that it is over for sure.
const MOMENT: Duration = Duration::from_millis(100);
/// A request that nobody answers is told once more after this (kubelet gives up by then:
/// client-go `util/certificate/certificate_manager.go:48-50`).
const LONG_PENDING: Duration = Duration::from_secs(900);

/// What is done where the credential is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Once {
    /// It is looked at.
    Look,
    /// It is got.
    Get,
}

impl Registrar<'_> {
    /// Keeps the credential until the end: `None`. If that is not to be, whether it is usable.
    pub(crate) fn keep(mut self, once: Option<Once>) -> Option<bool> {
        loop {
            let seen = self.agent.stop.wakes();
            self.agent.progress().come_by();
            let situation = self.look();
            let step = self.next(&situation);
            // A key that has served does not stay behind, nor a kubeconfig that leads nowhere.
            let settled = step != Step::Forget && situation.need != Need::Repair;
            let usable = || settled && ready(self.agent).is_ok();
            match once {
                Some(Once::Look) => return Some(usable()),
                Some(Once::Get) if usable() => return Some(true),
                _ => {}
            }
            if let Step::Wait(until) = step {
                // Nothing wakes this loop when the files of -hub-kubeconfig-dir change.
                let slice = if once.is_some() { LOOK_ONCE } else { SLICE };
                let until = until.min(Instant::now() + slice);
                let until = situation.again.map_or(until, |again| until.min(again + MOMENT));
                if self.agent.stop.wait_for_change(seen, until) {
                    return None;
                }
            } else {
                let result = self.take(&step, &situation);
                self.conclude(&step, situation.asker, result);
                if self.agent.stop.raised() {
                    return None;
                }
            }
        }
    }

    /// The next step; what is open on the hub for nothing is closed.
    fn next(&mut self, situation: &Situation) -> Step {
        let Situation { need, asker, data, .. } = situation;
        let csr = match (need, asker, &self.registration.request) {
            (Need::Certificate(_), Some(asker), Some(_)) if !self.registration.is_over() => {
                self.csr(*asker, situation)
            }
            (Need::Certificate(_), ..) => Csr::Coming,
            _ => {
                self.asking.finish(self.agent);
                self.registration.issued = None;
                self.waits_no_more();
                Csr::Coming
            }
        };
        let key = data.get("tls.key").map(|key| key.as_slice());
        self.registration.next(need, *asker, &csr, key, Instant::now())
    }

    /// What the CSR on the hub means, as far as it was seen.
    fn csr(&mut self, asker: Asker, situation: &Situation) -> Csr {
        let object = match self.see(asker, situation) {
            Ok(Sighting::Object(object)) => object,
            Ok(Sighting::Absent) => return Csr::Absent,
            Ok(Sighting::Unknown) => return Csr::Unknown,
            Err(coming) => return coming,
        };
        let Some(request) = &self.registration.request else { return Csr::Coming };
        let by_agent = asker != Asker::Bootstrap;
        let uid = self.registration.uid.as_deref();
        let clocks = self.agent.clocks_of_asked();
        let signing = csr_status::look(&object, request, uid, by_agent, &self.names, clocks);
        self.tell_waiting(&signing, asker);
        if self.registration.uid.is_none() {
            self.registration.uid = object["metadata"]["uid"].as_str().map(str::to_owned);
        }
        if let Signing::Issued(_) = signing {
            let hub = self.asked_hub(situation).cloned();
            self.registration.issued = hub.map(|hub| (hub, object));
        }
        Csr::Seen(signing)
    }

    /// The CSR: the one with the certificate if that is kept, else as the hub shows it.
    fn see(&mut self, asker: Asker, situation: &Situation) -> Result<Sighting, Csr> {
        if let Some((hub, csr)) = &self.registration.issued
            && self.asked_hub(situation) == Some(hub)
        {
            return Ok(Sighting::Object(csr.clone()));
        }
        let Some(request) = &self.registration.request else { return Err(Csr::Coming) };
        // A client that cannot be made is told by the next step.
        let client = self.asking.client(self.agent, asker, situation.access(asker));
        let client = client.map_err(|_| Csr::Unknown)?;
        match self.asking.watch(self.agent, &client, &request.name) {
            // What was posted on one hub says nothing of another.
            Ok(true) => self.registration.uid = None,
            Ok(false) => {}
            Err(error) => {
                log::debug!("{error}");
                return Err(Csr::Coming);
            }
        }
        self.asking.csr(Instant::now()).ok_or(Csr::Coming)
    }

    /// Says for whom a request waits: on the endpoint at once, aloud when it takes long.
    fn tell_waiting(&mut self, signing: &Signing, asker: Asker) {
        let name = self.registration.request.as_ref().map_or("", |request| &request.name);
        let what = match signing {
            Signing::Pending if asker == Asker::Bootstrap => {
                format!("CSR {name} is not approved yet: kubectl certificate approve {name}")
            }
            Signing::Pending => format!("CSR {name} is not approved by the hub yet"),
            Signing::Approved => {
                format!("CSR {name} is approved, but the hub's signer has not signed it")
            }
            _ => return self.waits_no_more(),
        };
        let first = self.waiting.is_none();
        let (since, told) = self.waiting.get_or_insert_with(|| (Instant::now(), false));
        if !*told && since.elapsed() >= LONG_PENDING {
            *told = true;
            self.agent.tell("CSRPending", true, &what);
        } else if first {
            log::info!("{what}");
            self.agent.progress().pending = Some(SystemTime::now());
        }
        self.agent.progress().detail = Some(what);
    }

    fn waits_no_more(&mut self) {
        self.waiting = None;
        self.agent.progress().pending = None;
    }
}
