//! The effect of the process's actions, as in `perform`, `hub` and `store`, with or without an answer.

use apiclient::error::{Error, Result as HubResult};
use explorer::Fate;

use super::{
    Registration,
    process::Process,
    world::{Credential, Csr, CsrState, Pending, World},
};
use crate::certificate::{
    csr::CertificateRequest,
    deadline,
    machine::CertificateAction,
    need::{Need, Requester},
    observe::ObservedCredential,
};

/// The first wait after a failure.
const RETRY: std::time::Duration = std::time::Duration::from_secs(1);

impl Registration {
    /// Sends a request, or not, and lets the process know of it, or not.
    pub(super) fn perform(
        &self,
        world: &mut World,
        action: &CertificateAction,
        observed: &ObservedCredential,
        fate: Fate,
    ) -> Result<(), String> {
        let (now, mut process) = (self.instant(world.now), world.process.take().unwrap());
        if let Some(requester) = observed.requester.filter(|_| action.is_on_the_hub()) {
            process.use_client(requester);
        }
        let sent = fate != Fate::NotSent;
        let before = process.clone();
        let result = if sent { self.send(world, &mut process, action, observed) } else { Ok(()) };
        match fate {
            Fate::Answered => {
                process.contacted |= action.is_on_the_hub();
                world.process = Some(process);
            }
            Fate::NotSent | Fate::AnswerLost => {
                process = before;
                let of = observed.requester.filter(|_| action.is_on_the_hub());
                let failure: HubResult<()> = Err(Error::Unreachable("no answer".into()));
                if let Some(requester) = of {
                    process.machine.answered(requester, &failure, now);
                }
                process.machine.failed(now, RETRY, of);
                world.process = Some(process);
            }
            Fate::Killed => world.kill(),
        }
        result
    }

    fn send(
        &self,
        world: &mut World,
        process: &mut Process,
        action: &CertificateAction,
        observed: &ObservedCredential,
    ) -> Result<(), String> {
        let (now, requester) = (self.instant(world.now), observed.requester);
        let by_agent = requester != Some(Requester::Bootstrap);
        match action {
            CertificateAction::StoreRequest => return self.store(world, process, by_agent),
            CertificateAction::SaveCertificate(pem) => {
                return self.save(world, process, pem, observed);
            }
            CertificateAction::DeleteRequest => return self.delete(world, process, by_agent),
            CertificateAction::AbandonCsr(failure) => {
                if let Some(key) = process.machine.request().map(|request| self.key_of(request)) {
                    world.give_up(key, by_agent)?;
                }
                process.machine.ended(failure, requester, now, 0.0);
                process.close();
            }
            CertificateAction::RepairSecret => {
                process.machine.repaired(now);
            }
            CertificateAction::CountPending => process.machine.counted(),
            CertificateAction::CreateManagedCluster => {
                process.machine.introduced(now, 0.0);
                world.hear(process.names)?;
            }
            CertificateAction::CreateCsr => self.create_csr(world, process, by_agent)?,
            CertificateAction::GetCsr => process.read_csr(self, world),
            CertificateAction::ConfirmGone => {
                let key = process.machine.request().map(|request| self.key_of(request));
                match key.filter(|key| world.csrs.contains_key(key)) {
                    Some(_) => process.read_csr(self, world),
                    None => {
                        process.machine.gone(requester.unwrap(), now, 0.0);
                    }
                }
            }
            other => return Err(format!("{other:?} is none of the loop's actions")),
        }
        if let Some(requester) = requester.filter(|_| action.is_on_the_hub()) {
            let answer: HubResult<()> = Ok(());
            process.machine.answered(requester, &answer, now);
        }
        Ok(())
    }

    /// As `Performer::store_request`: a second writer finds out, and takes over what is there.
    fn store(
        &self,
        world: &mut World,
        process: &mut Process,
        by_agent: bool,
    ) -> Result<(), String> {
        let there = world.pending.map(|pending| pending.version);
        if self.rules.stores_with_care && there != process.stored {
            process.stored = there;
            let request = world.pending.and_then(|stored| self.stored_request(stored, process));
            process.machine.stored(request);
            return Ok(());
        }
        if let Some(given_up) = world.pending {
            world.give_up(given_up.key, by_agent)?;
        }
        (world.keys, world.versions) = (world.keys + 1, world.versions + 1);
        let stored = Pending { key: world.keys, names: process.names, version: world.versions };
        (world.pending, process.stored) = (Some(stored), Some(stored.version));
        process.machine.stored(Some(self.request(stored.key, stored.names)));
        Ok(())
    }

    /// The stored request, unless it is for other names.
    pub(super) fn stored_request(
        &self,
        stored: Pending,
        process: &Process,
    ) -> Option<CertificateRequest> {
        let same = self.names(stored.names) == self.names(process.names);
        same.then(|| self.request(stored.key, stored.names))
    }

    fn delete(
        &self,
        world: &mut World,
        process: &mut Process,
        by_agent: bool,
    ) -> Result<(), String> {
        if let Some(pending) = world.pending.filter(|it| Some(it.version) == process.stored) {
            world.give_up(pending.key, by_agent)?;
            world.pending = None;
        }
        process.stored = None;
        process.machine.stored(None);
        Ok(())
    }

    fn create_csr(
        &self,
        world: &mut World,
        process: &mut Process,
        by_agent: bool,
    ) -> Result<(), String> {
        let Some(request) = process.machine.request() else { return Ok(()) };
        let key = self.key_of(request);
        if !world.csrs.contains_key(&key) {
            world.hear(process.names)?;
            let alive = |csr: &Csr| {
                let same = csr.need == world.saved && csr.by_agent == by_agent;
                same && world.is_of_use(csr)
            };
            if world.csrs.values().any(alive) {
                return Err("there are two CSRs for one certificate".into());
            }
            world.uids += 1;
            let (uid, names, need) = (world.uids, process.names, world.saved);
            let csr = Csr { uid, names, by_agent, state: CsrState::Pending, need, done: false };
            process.machine.posted(&self.csr(key, csr));
            world.csrs.insert(key, csr);
        }
        process.read_csr(self, world);
        Ok(())
    }

    fn save(
        &self,
        world: &mut World,
        process: &mut Process,
        pem: &[u8],
        observed: &ObservedCredential,
    ) -> Result<(), String> {
        let now = self.instant(world.now);
        let Some(request) = process.machine.request() else { return Ok(()) };
        let (key, names) = (self.key_of(request), process.names);
        let Some(issued) = self.issued_at(key, names, pem) else {
            return Err("a certificate is saved with another key".into());
        };
        if world.credential.is_some_and(|saved| saved.issued > issued) {
            return Err("a certificate is lost: an older one replaces it".into());
        }
        let saved = Credential { key, names, issued };
        world.saved += u8::from(world.credential != Some(saved));
        world.credential = Some(saved);
        world.done(key);
        process.credential = Some(world.credential);
        let used = deadline::least_use(pem, &self.clocks(world, process));
        let regular = matches!(&observed.need, Need::Certificate(why) if why.regular);
        process.machine.saved(pem, now + used, regular, now);
        process.close();
        Ok(())
    }

    fn issued_at(&self, key: u8, names: u8, pem: &[u8]) -> Option<std::time::Duration> {
        let fixtures = self.fixtures.borrow();
        let mut known = fixtures.certificates.iter();
        let found = known.find(|((of, whose, _), it)| (*of, *whose) == (key, names) && *it == pem);
        found.map(|((.., issued), _)| *issued)
    }
}

impl Process {
    /// An answer about the CSR, which the watch confirms later.
    fn read_csr(&mut self, model: &Registration, world: &World) {
        let key = self.machine.request().map(|request| model.key_of(request));
        let csr = key.and_then(|key| world.csrs.get(&key).copied());
        self.watch.iter_mut().for_each(|watch| watch.answered(csr, world.now));
    }
}

/// The action in words.
pub(super) fn words(action: &CertificateAction) -> &'static str {
    match action {
        CertificateAction::CountPending => "count the pending CSRs",
        CertificateAction::StoreRequest => "store a key and its request",
        CertificateAction::CreateManagedCluster => "create the ManagedCluster",
        CertificateAction::GetCsr => "read the CSR",
        CertificateAction::CreateCsr => "post the CSR",
        CertificateAction::ConfirmGone => "confirm that the CSR is gone",
        CertificateAction::SaveCertificate(_) => "save the certificate",
        CertificateAction::RepairSecret => "repair the Secret",
        CertificateAction::DeleteRequest => "delete the stored request",
        CertificateAction::AbandonCsr(_) => "abandon the CSR",
        _ => "prepare",
    }
}
