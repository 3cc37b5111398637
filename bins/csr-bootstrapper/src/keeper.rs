//! The loop that keeps the credential: looks at what is known, takes the step that the registration says,
//! and tells what came of it.

use std::time::{Duration, Instant};

use crate::{
    agent::SLICE,
    known::Sighting,
    registrar::Registrar,
    registration::{Asker, Csr, Need, Step},
    signing::{self, Signing},
    situation::Situation,
};

/// How often it is looked at where somebody waits for the end of it.
const LOOK_ONCE: Duration = Duration::from_secs(1);
/// Beyond the end of a certificate, so that it is over for sure.
const MOMENT: Duration = Duration::from_millis(100);
/// A request that nobody answers is told once more after this (kubelet gives up by then:
/// client-go `util/certificate/certificate_manager.go:48-50`).
const LONG_PENDING: Duration = Duration::from_secs(900);

impl Registrar<'_> {
    /// Keeps the credential until the end, or until it is usable if it is fetched `once`: then `true`.
    pub(crate) fn keep(mut self, once: bool) -> bool {
        loop {
            let seen = self.agent.stop.wakes();
            self.agent.beat();
            let situation = self.look();
            if once && self.agent.ready().is_ok() {
                return true;
            }
            let step = self.next(&situation);
            if let Step::Wait(until) = step {
                // Nothing wakes this loop when the files of -hub-kubeconfig-dir change.
                let slice = if once { LOOK_ONCE } else { SLICE };
                let until = until.min(Instant::now() + slice);
                let until = situation.again.map_or(until, |again| until.min(again + MOMENT));
                if self.agent.stop.wait_for_change(seen, until) {
                    return false;
                }
            } else {
                let result = self.take(&step, &situation);
                self.conclude(&step, result);
                if self.agent.stop.raised() {
                    return false;
                }
            }
        }
    }

    /// The next step; what is open on the hub for nothing is closed.
    fn next(&mut self, situation: &Situation) -> Step {
        let Situation { need, asker, data, .. } = situation;
        let csr = match (need, asker, &self.registration.request) {
            (Need::Certificate(_), Some(asker), Some(_)) => self.csr(*asker, situation),
            (Need::Certificate(_), ..) => Csr::Unknown,
            _ => {
                self.asking.finish();
                Csr::Unknown
            }
        };
        let key = data.get("tls.key").map(Vec::as_slice);
        self.registration.next(need, *asker, &csr, key, Instant::now())
    }

    /// What the CSR on the hub means, as far as it was seen.
    fn csr(&mut self, asker: Asker, situation: &Situation) -> Csr {
        let client = self.asking.client(self.agent, asker, situation.access(asker));
        let Some(request) = &self.registration.request else { return Csr::Unknown };
        let watched =
            client.and_then(|client| self.asking.watch(self.agent, &client, &request.name));
        if let Err(error) = watched {
            log::debug!("{error}");
            return Csr::Unknown;
        }
        let object = match self.asking.csr() {
            Sighting::Unknown => return Csr::Unknown,
            Sighting::Absent => return Csr::Absent,
            Sighting::Object(object) => object,
        };
        let by_agent = asker != Asker::Bootstrap;
        let uid = self.registration.uid.as_deref();
        let signing = signing::look(&object, request, uid, by_agent, &self.names, situation.now);
        self.tell_waiting(&signing);
        if self.registration.uid.is_none() {
            self.registration.uid = object["metadata"]["uid"].as_str().map(str::to_owned);
        }
        Csr::Seen(signing)
    }

    fn tell_waiting(&mut self, signing: &Signing) {
        let what = match signing {
            Signing::Pending => "is not approved yet: kubectl certificate approve",
            Signing::Approved => "is approved, but the hub's signer has not signed it",
            _ => {
                self.waiting = None;
                return;
            }
        };
        let (since, told) = self.waiting.get_or_insert_with(|| (Instant::now(), false));
        if !*told && since.elapsed() >= LONG_PENDING {
            *told = true;
            let name = self.registration.request.as_ref().map_or("", |request| &request.name);
            self.agent.tell("CSRPending", true, &format!("CSR {name} {what}"));
        }
    }
}
