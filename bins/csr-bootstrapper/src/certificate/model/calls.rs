//! The certificate's `Io` for the world; one call may go wrong.

use apiclient::error::{Error, Result};
use log::Level;
use serde_json::Value;

use super::{
    Registration,
    world::{Credential, Csr, CsrState, Pending, World},
};
use crate::{
    certificate::{csr::CertificateRequest, io::Io},
    clocks::Clocks,
};

/// What goes wrong with one call.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    /// The call does not reach the server.
    NotSent,
    /// The server handles the call, and its answer is lost.
    AnswerLost,
    /// The process is killed after the call was sent, before the answer.
    Killed,
    /// Something happens right before the call.
    Before(fn(&mut World)),
}

/// The calls of one step.
pub(super) struct Calls<'a> {
    pub(super) model: &'a Registration,
    pub(super) world: &'a mut World,
    pub(super) by_agent: bool,
    /// The call that goes wrong, and how.
    pub(super) fault: Option<(usize, Fault)>,
    pub(super) names: Vec<&'static str>,
    pub(super) is_killed: bool,
    /// The first invariant that was broken.
    pub(super) violation: Option<String>,
}

impl Calls<'_> {
    fn call<T>(
        &mut self,
        name: &'static str,
        act: impl FnOnce(&mut Self) -> std::result::Result<Result<T>, String>,
    ) -> Result<T> {
        let fault = self.fault.filter(|(at, _)| *at == self.names.len()).map(|(_, fault)| fault);
        self.names.push(name);
        if self.is_killed || matches!(fault, Some(Fault::NotSent)) {
            return Err(Error::Unreachable("not sent".into()));
        }
        if let Some(Fault::Before(step)) = fault {
            step(self.world);
        }
        self.is_killed = matches!(fault, Some(Fault::Killed));
        let answer = act(self).unwrap_or_else(|what| {
            self.violation.get_or_insert(what);
            Err(Error::Unreachable("broken".into()))
        });
        match fault {
            Some(Fault::AnswerLost | Fault::Killed) => Err(Error::Unreachable("no answer".into())),
            _ => answer,
        }
    }

    fn names(&self) -> u8 {
        self.world.process.as_ref().unwrap().names
    }

    /// The process learns what is stored, unless the answer is lost.
    fn learn(&mut self, stored: Option<Pending>) {
        let is_lost = self.fault.is_some_and(|(at, fault)| {
            at + 1 == self.names.len() && !matches!(fault, Fault::Before(_))
        });
        let process = self.world.process.as_mut().unwrap();
        process.is_stale |= is_lost;
        if !is_lost {
            (process.stored, process.is_stale) = (stored, false);
        }
    }

    fn replace_stored(&mut self, key: Option<u8>) -> std::result::Result<Result<()>, String> {
        let there = self.world.pending;
        let known = self.world.process.as_ref().unwrap().stored;
        if there != known {
            self.learn(there);
            return Ok(Err(Error::Conflict("another one".into())));
        }
        if let Some(given_up) = there {
            let by_agent = self.by_agent;
            self.world.give_up(given_up.key, by_agent)?;
        }
        self.world.pending = key.map(|key| {
            self.world.keys = self.world.keys.max(key);
            Pending { key, names: self.names() }
        });
        self.learn(self.world.pending);
        Ok(Ok(()))
    }

    /// Gives up the stored request, which has ended without a certificate.
    pub(super) fn give_up_stored(&mut self) {
        let (stored, by_agent) = (self.world.process.as_ref().unwrap().stored, self.by_agent);
        let given_up = stored.map_or(Ok(()), |stored| self.world.give_up(stored.key, by_agent));
        if let Err(what) = given_up {
            self.violation.get_or_insert(what);
        }
    }

    fn post(&mut self, request: &CertificateRequest) -> std::result::Result<Result<()>, String> {
        let (key, by_agent) = (self.model.key_of(request), self.by_agent);
        if self.world.csrs.contains_key(&key) {
            return Ok(Err(Error::AlreadyExists("it exists".into())));
        }
        let (names, need) = (self.names(), self.world.saved);
        self.world.hear(names)?;
        let is_of_use =
            |csr: &Csr| csr.need == need && csr.by_agent == by_agent && self.world.is_of_use(csr);
        if self.world.csrs.values().any(is_of_use) {
            return Err("there are two CSRs for one certificate".into());
        }
        let csr = Csr { names, by_agent, state: CsrState::Pending, need, done: false };
        self.world.csrs.insert(key, csr);
        Ok(Ok(()))
    }

    fn save_certificate(
        &mut self,
        pem: &[u8],
        request: &CertificateRequest,
    ) -> std::result::Result<(), String> {
        let (key, names) = (self.model.key_of(request), self.names());
        let Some(issued) = self.model.issued_at(key, names, pem) else {
            return Err("a certificate is saved with another key".into());
        };
        if self.world.credential.is_some_and(|saved| saved.issued > issued) {
            return Err("a certificate is lost: an older one replaces it".into());
        }
        let saved = Credential { key, names, issued };
        self.world.saved += u8::from(self.world.credential != Some(saved));
        self.world.credential = Some(saved);
        self.world.done(key);
        Ok(())
    }
}

impl Io for Calls<'_> {
    fn new_request(&mut self, _: &str) -> Result<CertificateRequest> {
        Ok(self.model.request(self.world.keys + 1, self.names()))
    }

    fn stored(&mut self) -> Result<Option<CertificateRequest>> {
        if self.world.process.as_ref().unwrap().is_stale {
            self.call("read the stored request", |calls| {
                calls.learn(calls.world.pending);
                Ok(Ok(()))
            })?;
        }
        let stored = self.world.process.as_ref().unwrap().stored;
        Ok(stored.and_then(|stored| self.model.stored_request(stored, self.names())))
    }

    fn store(&mut self, request: Option<&CertificateRequest>) -> Result<()> {
        let key = request.map(|request| self.model.key_of(request));
        let name = if key.is_some() { "store a request" } else { "delete the stored request" };
        self.call(name, |calls| calls.replace_stored(key))
    }

    fn pending(&mut self) -> Result<usize> {
        self.call("list pending CSRs", |calls| {
            calls.world.process.as_mut().unwrap().is_contacted = true;
            Ok(Ok(0))
        })
    }

    fn csr(&mut self, name: &str) -> Result<Option<Value>> {
        self.call("read the CSR", |calls| {
            calls.world.process.as_mut().unwrap().is_contacted = true;
            if !calls.by_agent {
                calls.world.hear(calls.names())?;
            }
            let key = calls.model.key_of_name(name);
            let csr = calls.world.csrs.get(&key).copied();
            Ok(Ok(csr.map(|csr| calls.model.csr(key, csr))))
        })
    }

    fn create_csr(&mut self, request: &CertificateRequest) -> Result<()> {
        self.call("post the CSR", |calls| calls.post(request))
    }

    fn save(&mut self, issued: Option<(&[u8], &CertificateRequest)>) -> Result<()> {
        self.call("save the Secret", |calls| {
            let Some((pem, request)) = issued else { return Ok(Ok(())) };
            calls.save_certificate(pem, request).map(Ok)
        })
    }

    fn clocks(&self) -> Clocks {
        self.model.clocks(self.world, self.world.process.as_ref().unwrap())
    }

    fn notify(&mut self, _: Level, _: &'static str, _: String) {}
}
