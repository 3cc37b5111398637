//! Certificate of the cluster or of an add-on: requested, awaited, saved.
//!
//! [`Certificate::sync`] takes one step at a time, like client-go's `rotateCerts`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::{
    certificate,
    error::{Error, Result},
};
use log::Level;

use super::{
    csr::CertificateRequest,
    csr_status::{CsrFailure, CsrStatus, Judge, MAX_PENDING, evaluate},
    deadline,
    io::{Io, Notice, Observation, Requester},
    pacing::{MAX_BACKOFF, Pacing, REST_SHORT, rest_after},
    validate::{self, Need, NeedReason, Validation},
};
use crate::{clocks::Clocks, hub::Hub, state::Rotated};

/// A pending CSR is announced once more after this (kubelet gives up by then: client-go
/// `util/certificate/certificate_manager.go:48-50`).
const LONG_PENDING: Duration = Duration::from_secs(900);
/// The time until a hub with too many requests is asked again.
const HALT: Duration = Duration::from_secs(60);

/// The progress of one certificate: plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Certificate {
    /// The stored request, if there is one.
    request: Option<Arc<CertificateRequest>>,
    /// It ended without a certificate: the next one needs a key of its own.
    pub(super) ended: bool,
    /// The last requester and its hub.
    requester: Option<(Requester, Hub)>,
    /// That hub has room for one more CSR.
    counted: bool,
    /// This process has seen its CSR there.
    posted: bool,
    /// The certificate until it is saved: a hub removes its CSR after an hour.
    issued: Option<Vec<u8>>,
    waiting: Option<Waiting>,
    /// The last certificate of this process, and the end of its least use.
    obtained: Option<(Vec<u8>, Instant)>,
    pub(super) pacing: Pacing,
    rotated: Option<Rotated>,
}

/// A CSR that waits for approval or signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    since: Instant,
    is_overdue: bool,
}

impl Certificate {
    /// Starts with the request that an earlier process stored.
    pub(crate) fn new(request: Option<CertificateRequest>) -> Self {
        Self { request: request.map(Arc::new), ..Self::default() }
    }

    /// The stored request, if there is one.
    pub(crate) fn request(&self) -> Option<&CertificateRequest> {
        self.request.as_deref()
    }

    /// The result of the last rotation, once there is one.
    pub(crate) fn rotated(&self) -> Option<&Rotated> {
        self.rotated.as_ref()
    }

    /// Returns whether a CSR waits for approval or signature.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Goes on with another stored request, at the pace of before.
    pub(crate) fn adopt(&mut self, request: Option<CertificateRequest>) {
        let Self { requester, obtained, pacing, rotated, .. } = std::mem::take(self);
        let request = request.map(Arc::new);
        *self = Self { request, requester, obtained, pacing, rotated, ..Self::default() };
    }

    /// What the credential in `what` ("Secret ns/name") needs.
    pub(crate) fn need(
        &self,
        what: &str,
        validation: &Validation,
        refused: bool,
        (clocks, now): (Clocks, Instant),
    ) -> Need {
        let due_in = validation.usable().map(|usable| {
            let pem = &usable.identity.certificate;
            deadline::due_in(pem, &usable.chain, self.obtained.as_ref(), (clocks, now))
        });
        validate::need(what, validation, due_in, refused)
    }

    /// Does what is due; returns when to come again if nothing changes.
    ///
    /// # Errors
    /// As the clusters say.
    pub(crate) fn sync(&mut self, seen: &Observation<'_>, io: &mut dyn Io) -> Result<Instant> {
        self.see_requester(seen.requester);
        if !matches!(seen.need, Need::Certificate(_)) {
            (self.counted, self.issued, self.waiting) = (false, None, None);
        }
        match seen.need {
            Need::Nothing(left) => self.finish(seen, io).map(|()| seen.now + *left),
            Need::Repair => self.repair(seen, io),
            Need::Certificate(why) => match seen.requester {
                Some((requester, _)) => self.obtain(why, requester, seen, io),
                None => Ok(seen.now + MAX_BACKOFF),
            },
        }
    }

    /// Nothing seen by one requester counts for another one, or on another hub. A rest lasts for both requesters: where
    /// the hub refuses the agent now and then, they alternate.
    fn see_requester(&mut self, requester: Option<(Requester, &Hub)>) {
        let Some((requester, hub)) = requester else { return };
        let known = self.requester.as_ref();
        if known.is_none_or(|(_, known)| known != hub) {
            self.pacing.end_rest();
        } else if known.is_some_and(|(known, _)| *known == requester) {
            return;
        }
        (self.counted, self.posted, self.issued) = (false, false, None);
        self.requester = Some((requester, hub.clone()));
    }

    /// Deletes the stored request once its certificate is saved.
    fn finish(&mut self, seen: &Observation<'_>, io: &mut dyn Io) -> Result<()> {
        // An earlier process may have ended before it reported its certificate, and somebody may have put one there.
        if let Some(usable) = seen.validation.usable() {
            self.rotated = Some(Rotated::Done(deadline::rotated_message(&usable.chain)));
        }
        match self.request.as_ref().is_some_and(|request| seen.is_saved(request)) {
            true => self.store(None, io),
            false => Ok(()),
        }
    }

    /// Stores `request`, or nothing, in place of the known request, unless something else is stored by now: then that
    /// counts.
    fn store(&mut self, request: Option<CertificateRequest>, io: &mut dyn Io) -> Result<()> {
        let stored = io.stored()?;
        if stored.as_ref() != self.request() {
            self.adopt(stored);
            return Ok(());
        }
        io.store(request.as_ref())?;
        self.adopt(request);
        Ok(())
    }

    fn repair(&mut self, seen: &Observation<'_>, io: &mut dyn Io) -> Result<Instant> {
        if let Some(until) = self.pacing.next_write(seen.now) {
            return Ok(until);
        }
        io.save(None)?;
        self.pacing.wrote(false, seen.now);
        io.notify(&Notice::repaired(seen.secret));
        Ok(seen.now)
    }

    /// Requests a certificate, and saves it once the hub has issued it.
    fn obtain(
        &mut self,
        why: &NeedReason,
        requester: Requester,
        seen: &Observation<'_>,
        io: &mut dyn Io,
    ) -> Result<Instant> {
        // A key in use gets no other certificate.
        let is_open = |request: &&Arc<CertificateRequest>| !self.ended && !seen.is_saved(request);
        let request = self.request.as_ref().filter(is_open).cloned();
        if let (Some(request), Some(pem)) = (&request, self.issued.clone()) {
            return self.save(request, &pem, why, seen, io);
        }
        if let Some(until) = self.pacing.resting(seen.now) {
            return Ok(until);
        }
        let Some(request) = request else { return self.begin(seen, io) };
        let Some(csr) = io.csr(&request.name)? else { return self.post(&request, seen, io) };
        self.posted = true;
        let status = evaluate(
            &csr,
            &Judge {
                request: &request,
                template: seen.template,
                agent: seen.agent,
                by_agent: requester == Requester::Agent,
                clocks: io.clocks(),
            },
        );
        match status {
            Ok(CsrStatus::Issued(pem)) => {
                (self.issued, self.waiting) = (Some(pem), None);
                Ok(seen.now)
            }
            Ok(status) => {
                let notice = Notice::pending(&request.name, &status, seen.approved_by_hand);
                Ok(self.wait(notice, seen.now, io))
            }
            Err(failure) => {
                self.end(&request.name, &failure, seen, io);
                Ok(seen.now)
            }
        }
    }

    /// Gives up the request, which ended without a certificate.
    fn end(&mut self, name: &str, failure: &CsrFailure, seen: &Observation<'_>, io: &mut dyn Io) {
        (self.ended, self.issued, self.waiting) = (true, None, None);
        let rest = self.pacing.ended(rest_after(failure), seen.now, seen.random);
        let sentence = &*format!("CSR {name} {}", failure.sentence());
        self.rotated = Some(Rotated::ended(sentence));
        io.forget(name);
        io.notify(&Notice::ended(failure, sentence, rest));
    }

    /// Makes a request and stores it, unless the hub has too many.
    fn begin(&mut self, seen: &Observation<'_>, io: &mut dyn Io) -> Result<Instant> {
        if let Some(until) = self.pacing.next_write(seen.now) {
            return Ok(until);
        }
        // The hub may have more of them when the request could not be stored.
        if !std::mem::take(&mut self.counted) {
            return self.count(seen.now, io);
        }
        let request = io.new_request()?;
        self.store(Some(request), io)?;
        Ok(seen.now)
    }

    /// Counts the pending CSRs. The answer also brings the hub's time: the credential is judged by that before there is
    /// another key.
    fn count(&mut self, now: Instant, io: &mut dyn Io) -> Result<Instant> {
        let pending = io.pending().inspect_err(|error| self.not_created(error))?;
        self.counted = pending.len() < MAX_PENDING;
        if self.counted {
            return Ok(now);
        }
        let is_new = self.rotated.replace(Rotated::Halted) != Some(Rotated::Halted);
        io.notify(&Notice { is_new, ..Notice::halted(&pending) });
        self.pacing.halted(now + HALT);
        Ok(now + HALT)
    }

    /// Posts the CSR, which does not exist; after a rest if it did before.
    fn post(
        &mut self,
        request: &CertificateRequest,
        seen: &Observation<'_>,
        io: &mut dyn Io,
    ) -> Result<Instant> {
        self.waiting = None;
        if std::mem::take(&mut self.posted) {
            let rest = self.pacing.ended(REST_SHORT, seen.now, seen.random);
            io.notify(&Notice::gone(&request.name, rest));
            return Ok(seen.now + rest);
        }
        match io.create_csr(request) {
            Ok(()) => {
                self.posted = true;
                io.notify(&Notice::created(&request.name, seen.approved_by_hand));
                Ok(seen.now)
            }
            Err(Error::AlreadyExists(_)) => Ok(seen.now + REST_SHORT),
            Err(error) => {
                self.not_created(&error);
                Err(error)
            }
        }
    }

    /// One outage has one message: that of its first error.
    fn not_created(&mut self, error: &Error) {
        if !matches!(self.rotated, Some(Rotated::NotCreated(_))) {
            self.rotated = Some(Rotated::not_created(error));
        }
    }

    fn wait(&mut self, notice: Notice, now: Instant, io: &mut dyn Io) -> Instant {
        let known = self.waiting;
        let since = known.map_or(now, |waiting| waiting.since);
        let is_overdue = now.saturating_duration_since(since) >= LONG_PENDING;
        let is_new = known.is_none_or(|waiting| waiting.is_overdue != is_overdue);
        self.waiting = Some(Waiting { since, is_overdue });
        let level = if is_overdue { Level::Warn } else { Level::Info };
        io.notify(&Notice { is_new, level, ..notice });
        now + MAX_BACKOFF
    }

    fn save(
        &mut self,
        request: &CertificateRequest,
        pem: &[u8],
        why: &NeedReason,
        seen: &Observation<'_>,
        io: &mut dyn Io,
    ) -> Result<Instant> {
        if let Some(until) = self.pacing.next_write(seen.now) {
            return Ok(until);
        }
        io.save(Some((pem, request)))?;
        // An old certificate that somebody restores is due too.
        let current = seen.validation.usable().map(|usable| &usable.identity.certificate);
        let is_last = self.obtained.as_ref().is_none_or(|(last, _)| Some(last) == current);
        self.pacing.saved(why.regular && is_last, seen.now);
        let used = deadline::least_use(pem, &io.clocks());
        self.obtained = Some((pem.to_vec(), seen.now + used));
        (self.posted, self.issued, self.waiting) = (false, None, None);
        let chain = certificate::chain(pem).unwrap_or_default();
        self.rotated = Some(Rotated::Done(deadline::rotated_message(&chain)));
        io.notify(&Notice::saved(&request.name, seen.secret));
        Ok(seen.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::model::fixtures::hub;

    #[test]
    fn rest_lasts_until_another_hub_whoever_requests() {
        let (here, there) = (hub(), Hub { server: "https://other.example".into(), ..hub() });
        let (mut certificate, now) = (Certificate::default(), Instant::now());
        certificate.see_requester(Some((Requester::Agent, &here)));
        certificate.pacing.ended(MAX_BACKOFF, now, 0.0);
        for (requester, hub, rests) in [
            (Requester::Bootstrap, &here, true),
            (Requester::Agent, &here, true),
            (Requester::Agent, &there, false),
        ] {
            certificate.posted = true;
            certificate.see_requester(Some((requester, hub)));
            assert_eq!(
                (certificate.pacing.resting(now).is_some(), certificate.posted),
                (rests, false)
            );
        }
    }
}
