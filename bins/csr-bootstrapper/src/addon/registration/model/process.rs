//! The process: what it knows, and what it observes.

use std::{collections::BTreeMap, time::Duration};

use kubeconfig::secret::Data;
use serde_json::{Value, json};

use super::{
    Rules,
    world::{Content, Csr, Key, Places, Request, Stored, View, World},
};
use crate::certificate::{
    csr::CertificateRequest,
    csr_status::{CsrStatus, ObservedCsr},
    machine::CsrMachine,
    need::{Need, NeedReason, Requester},
    observe::{ObservedCredential, SessionChange, tests::hub_at},
    validate::{UnusableCredential, Validation},
};

/// Certificates live longer than any way.
const LATER: Duration = Duration::from_secs(3600);

/// A process, as it is between two turns of its loop.
#[derive(Clone, Hash)]
pub(super) struct Process {
    /// The add-on as its watch shows it, once there is a list.
    pub(super) view: View,
    pub(super) store: Places<Option<Stored>>,
    /// That is what the store has.
    pub(super) store_current: bool,
    /// A write of the store had no answer.
    pub(super) is_stale: bool,
    /// The Secrets there were deleted, or are none of its own.
    pub(super) deleted: Places<bool>,
    pub(super) entry: Option<Entry>,
}

/// The registration at work.
#[derive(Clone, Hash)]
pub(super) struct Entry {
    pub(super) place: usize,
    pub(super) subject: u8,
    pub(super) machine: CsrMachine,
    pub(super) fresh: bool,
    pub(super) awaited: Option<(Key, Seen)>,
}

/// The awaited CSR, as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Seen {
    Unknown,
    Absent,
    Present(Csr),
}

impl Seen {
    pub(super) fn of(csr: Option<&Csr>) -> Self {
        csr.map_or(Self::Absent, |csr| Self::Present(*csr))
    }
}

impl World {
    pub(super) fn entry(&mut self) -> &mut Entry {
        self.process.as_mut().unwrap().entry.as_mut().unwrap()
    }
}

impl Process {
    pub(super) fn new(world: &World) -> Self {
        Self {
            view: None,
            store: world.store,
            store_current: true,
            is_stale: false,
            deleted: [false; 2],
            entry: None,
        }
    }

    /// As `RegistrationController::refresh_store`.
    pub(super) fn refresh_store(&mut self, world: &World) {
        if std::mem::take(&mut self.is_stale) {
            (self.store, self.store_current) = (world.store, true);
        }
    }

    /// As `RegistrationController::plan`, for the one registration.
    pub(super) fn start(&mut self, wanted: Option<(usize, u8)>, rules: Rules) {
        let known = self.entry.take().filter(|entry| wanted.is_some_and(|it| it.0 == entry.place));
        let Some((place, subject)) = wanted else { return };
        let request = self.request(place, subject, rules);
        self.entry = Some(match known {
            None => Entry {
                place,
                subject,
                machine: CsrMachine::new(request.filter(|_| rules.reads_stored)),
                fresh: false,
                awaited: None,
            },
            Some(entry) if entry.subject == subject => entry,
            Some(mut entry) => {
                // As `set_template`.
                entry.subject = subject;
                entry.close();
                entry.machine.stored(request);
                entry.fresh = false;
                entry
            }
        });
    }

    /// As `RegistrationStore::request`.
    pub(super) fn request(
        &self,
        place: usize,
        subject: u8,
        rules: Rules,
    ) -> Option<CertificateRequest> {
        let key = self.store[place]?.request?;
        (key.subject == subject || !rules.checks_subject).then(|| request_of(key))
    }

    /// A write of the store was answered, or another one came first.
    pub(super) fn stored(
        &mut self,
        rules: Rules,
        request: Request,
        done: bool,
        before: Places<Option<Stored>>,
    ) {
        let Request::Store(place, stored) = request else { return };
        let subject = self.entry.as_ref().map_or(0, |entry| entry.subject);
        let there = self.request(place, subject, rules);
        let Some(entry) = self.entry.as_mut().filter(|_| before[place].is_some()) else { return };
        match stored.request {
            Some(key) => {
                let request = if done { Some(request_of(key)) } else { there };
                entry.machine.stored(request);
                entry.fresh = done;
            }
            None if done && entry.machine.request().is_some() => entry.machine.stored(None),
            None => {}
        }
    }

    pub(super) fn is_behind(&self, csrs: &BTreeMap<Key, Csr>) -> bool {
        let awaited = self.entry.as_ref().and_then(|entry| entry.awaited);
        // That a CSR is not there is no event.
        awaited.is_some_and(|(key, seen)| match csrs.get(&key) {
            None => matches!(seen, Seen::Present(_)),
            csr => seen != Seen::of(csr),
        })
    }

    pub(super) fn hear(&mut self, csrs: &BTreeMap<Key, Csr>) {
        if let Some((key, seen)) = self.entry.as_mut().and_then(|entry| entry.awaited.as_mut()) {
            *seen = Seen::of(csrs.get(key));
        }
    }

    pub(super) fn has(&self, key: Key) -> bool {
        let of_machine = |entry: &Entry| {
            entry.machine.request().map(key_of) == Some(key)
                || entry.awaited.is_some_and(|(of, _)| of == key)
                || entry.machine.obtained().is_some_and(|(pem, _)| *pem == certificate(key))
        };
        self.entry.as_ref().is_some_and(of_machine)
            || self.store.contains(&Some(Stored { request: Some(key) }))
    }
}

impl Entry {
    pub(super) fn close(&mut self) {
        self.awaited = None;
        self.machine.closed();
    }

    /// As the real one, of what the world has: a certificate of the subject is good.
    pub(super) fn observe(&self, world: &World) -> ObservedCredential {
        let (mut need, mut data) = (None, Data::new());
        if let Some(Content::Ours(key)) = world.secrets[self.place] {
            data.insert("tls.key".into(), pem(key).into_bytes().into());
            need = (key.subject == self.subject).then_some(Need::Nothing(LATER));
        }
        let sentence = need.is_none().then(|| "is needed".to_owned());
        let need = need.unwrap_or_else(|| {
            let sentence = "is needed".to_owned();
            Need::Certificate(NeedReason { event: "", sentence, regular: false })
        });
        let (csr, csr_object) = self.observe_csr(&need);
        let validation =
            Validation::Unusable(UnusableCredential { reason: String::new(), event: "" });
        ObservedCredential {
            bootstrap: None,
            validation,
            data,
            need,
            requester: Some(Requester::Agent),
            requester_hub: Some(hub_at("https://hub.example:6443")),
            requester_open: self.awaited.is_some(),
            selecting: false,
            sentence,
            usable: false,
            session: SessionChange::Nothing,
            csr,
            csr_object,
            pending: None,
            again: None,
        }
    }

    fn observe_csr(&self, need: &Need) -> (ObservedCsr, Option<Value>) {
        let (Need::Certificate(_), Some(request)) = (need, self.machine.open_request()) else {
            return (ObservedCsr::Awaited, None);
        };
        let key = key_of(request);
        if let Some(issued) = self.machine.issued() {
            let status = CsrStatus::Issued(certificate(key));
            return (ObservedCsr::Present(status), Some(issued.csr.clone()));
        }
        match self.awaited.filter(|(of, _)| *of == key) {
            None => (ObservedCsr::Unwatched, None),
            Some((_, Seen::Unknown)) => (ObservedCsr::Unknown, None),
            Some((_, Seen::Absent)) => (ObservedCsr::Absent, None),
            Some((_, Seen::Present(csr))) => {
                let object = object(csr);
                let is_other =
                    self.machine.uid().is_some_and(|uid| object["metadata"]["uid"] != uid);
                let status = match csr.issued {
                    _ if is_other => CsrStatus::Replaced,
                    true => CsrStatus::Issued(certificate(key)),
                    false => CsrStatus::Pending,
                };
                (ObservedCsr::Present(status), Some(object))
            }
        }
    }
}

// --- what stands for keys, requests and certificates ---

fn pem(Key { number, subject }: Key) -> String {
    format!("{number}/{subject}")
}

fn request_of(key: Key) -> CertificateRequest {
    CertificateRequest { key: pem(key).into(), csr: String::new(), name: pem(key) }
}

pub(super) fn key_of(request: &CertificateRequest) -> Key {
    let (number, subject) = request.name.split_once('/').unwrap();
    Key { number: number.parse().unwrap(), subject: subject.parse().unwrap() }
}

pub(super) fn certificate(key: Key) -> Vec<u8> {
    pem(key).into_bytes()
}

pub(super) fn object(csr: Csr) -> Value {
    json!({"metadata": {"uid": csr.uid.to_string()}})
}
