//! Certificate of the cluster or of an add-on: requested, awaited, saved.
//!
//! [`Certificate::sync`] takes one step at a time, like client-go's `rotateCerts`.

use std::{
    mem,
    time::{Duration, Instant},
};

use apiclient::{
    certificate,
    error::{Error, Result},
};
use log::Level::{Info, Warn};

use super::{
    CertificateRequest, Io, Observation, Requester,
    csr_status::{CsrFailure, CsrStatus, Judge, MAX_PENDING, evaluate},
    deadline,
    pacing::{MAX_BACKOFF, Pacing, REST_SHORT, rest_after},
    validate::{self, Need, NeedReason, Validation},
};
use crate::{clocks::Clocks, conditions::Condition, hub::Hub};

/// A pending CSR is announced once more after this (kubelet gives up by then: client-go
/// `util/certificate/certificate_manager.go:48-50`).
const LONG_PENDING: Duration = Duration::from_secs(900);
/// The time until a hub with too many requests is asked again.
const HALT: Duration = Duration::from_secs(60);

/// Messages of condition ClusterCertificateRotated, in upstream's words.
const HALTED: &str = "Stop creating csr since there are too many csr created already on hub";
const NOT_CREATED: &str = "Failed to create CSR";

/// The progress of one certificate: plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Certificate {
    /// The name of the stored request, as of the last step.
    request: Option<String>,
    /// It ended without a certificate: the next one needs a key of its own.
    pub(super) ended: bool,
    requester: Option<(Requester, Hub)>,
    /// That hub has room for one more CSR.
    counted: bool,
    /// This process has seen its CSR there.
    posted: bool,
    waiting: Option<Waiting>,
    /// The last certificate of this process, and the end of its least use.
    obtained: Option<(Vec<u8>, Instant)>,
    pub(super) pacing: Pacing,
    rotated: Option<Condition>,
}

/// A CSR that waits for approval or signature.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    status: CsrStatus,
    since: Instant,
    is_overdue: bool,
}

impl Certificate {
    /// The name of the request whose CSR may be awaited.
    pub(crate) fn request(&self) -> Option<&str> {
        self.request.as_deref()
    }

    /// Condition ClusterCertificateRotated, once there has been a rotation.
    pub(crate) fn rotated(&self) -> Option<&Condition> {
        self.rotated.as_ref()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
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
    pub(crate) fn sync(&mut self, seen: &Observation<'_>, io: &mut dyn Io) -> Result<Instant> {
        self.see_requester(seen.requester);
        let stored = io.stored()?;
        self.see_request(stored.as_ref(), io);
        if let Need::Certificate(why) = seen.need {
            return match seen.requester {
                Some((requester, _)) => self.obtain(stored, why, requester, seen, io),
                None => Ok(seen.now + MAX_BACKOFF),
            };
        }
        (self.counted, self.waiting) = (false, None);
        stored.iter().for_each(|request| io.forget(&request.name));
        match seen.need {
            Need::Nothing(left) => self.finish(stored, seen, io).map(|()| seen.now + *left),
            _ => self.repair(seen, io),
        }
    }

    /// Nothing seen of one request counts for another one.
    fn see_request(&mut self, stored: Option<&CertificateRequest>, io: &mut dyn Io) {
        let stored = stored.map(|request| request.name.clone());
        if self.request == stored {
            return;
        }
        if let Some(name) = mem::replace(&mut self.request, stored) {
            io.forget(&name);
        }
        (self.ended, self.counted, self.posted, self.waiting) = (false, false, false, None);
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
        (self.counted, self.posted) = (false, false);
        self.requester = Some((requester, hub.clone()));
    }

    /// Deletes the stored request once its certificate is saved.
    fn finish(
        &mut self,
        stored: Option<CertificateRequest>,
        seen: &Observation<'_>,
        io: &mut dyn Io,
    ) -> Result<()> {
        // An earlier process may have ended before it reported its certificate, and somebody may have put one there.
        if let Some(usable) = seen.validation.usable() {
            self.rotated = Some(updated(deadline::rotated_message(&usable.chain)));
        }
        match stored.is_some_and(|request| seen.is_saved(&request)) {
            true => io.store(None),
            false => Ok(()),
        }
    }

    fn repair(&mut self, seen: &Observation<'_>, io: &mut dyn Io) -> Result<Instant> {
        if let Some(until) = self.pacing.next_write(seen.now) {
            return Ok(until);
        }
        io.save(None)?;
        self.pacing.wrote(false, seen.now);
        let message = format!("repaired the kubeconfig and the names in {}", seen.secret);
        io.notify(Info, super::REPAIRED, message);
        Ok(seen.now)
    }

    /// Requests a certificate, and saves it once the hub has issued it.
    fn obtain(
        &mut self,
        stored: Option<CertificateRequest>,
        why: &NeedReason,
        requester: Requester,
        seen: &Observation<'_>,
        io: &mut dyn Io,
    ) -> Result<Instant> {
        if let Some(until) = self.pacing.resting(seen.now) {
            return Ok(until);
        }
        // A key in use gets no other certificate.
        let is_open = |request: &CertificateRequest| !self.ended && !seen.is_saved(request);
        let Some(request) = stored.filter(is_open) else { return self.begin(seen, io) };
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
            Ok(CsrStatus::Issued(pem)) => self.save(&request, &pem, why, seen, io),
            Ok(status) => Ok(self.wait(&request.name, status, seen, io)),
            Err(failure) => {
                self.end(&request.name, &failure, seen, io);
                Ok(seen.now)
            }
        }
    }

    /// Gives up the request, which ended without a certificate.
    fn end(&mut self, name: &str, failure: &CsrFailure, seen: &Observation<'_>, io: &mut dyn Io) {
        (self.ended, self.waiting) = (true, None);
        let rest = self.pacing.ended(rest_after(failure), seen.now, seen.random);
        let sentence = format!("CSR {name} {}", failure.sentence);
        self.rotated =
            Some(not_updated(format!("Failed to rotated client certificate {sentence}")));
        io.forget(name);
        let message = format!("{sentence}; requesting another one in {} s", rest.as_secs());
        io.notify(Warn, failure.reason, message);
    }

    /// Makes a request and stores it, unless the hub has too many.
    fn begin(&mut self, seen: &Observation<'_>, io: &mut dyn Io) -> Result<Instant> {
        if let Some(until) = self.pacing.next_write(seen.now) {
            return Ok(until);
        }
        // The hub may have more of them when the request could not be stored.
        if !mem::take(&mut self.counted) {
            return self.count(seen.now, io);
        }
        let request = io.new_request()?;
        io.store(Some(&request))?;
        Ok(seen.now)
    }

    /// Counts the pending CSRs. The answer also brings the hub's time: the credential is judged by that before there is
    /// another key.
    fn count(&mut self, now: Instant, io: &mut dyn Io) -> Result<Instant> {
        let pending = io.pending().inspect_err(|error| self.not_created(error))?;
        self.counted = pending < MAX_PENDING;
        if self.counted {
            return Ok(now);
        }
        let halted = Some(not_updated(HALTED.to_owned()));
        if self.rotated != halted {
            io.notify(Warn, super::HALTED, HALTED.to_owned());
            self.rotated = halted;
        }
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
        let name = &request.name;
        self.waiting = None;
        if mem::take(&mut self.posted) {
            let rest = self.pacing.ended(REST_SHORT, seen.now, seen.random);
            let what = "is gone from the hub without an answer; posting it again";
            io.notify(Warn, super::GONE, format!("CSR {name} {what} in {} s", rest.as_secs()));
            return Ok(seen.now + rest);
        }
        match io.create_csr(request) {
            Ok(()) => {
                self.posted = true;
                let approve = seen.approve(name);
                io.notify(
                    Info,
                    super::CREATED,
                    format!("CSR {name} was created on the hub{approve}"),
                );
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
        if self.rotated.as_ref().is_none_or(|known| !known.message.starts_with(NOT_CREATED)) {
            self.rotated = Some(not_updated(format!("{NOT_CREATED} {error}")));
        }
    }

    fn wait(
        &mut self,
        name: &str,
        status: CsrStatus,
        seen: &Observation<'_>,
        io: &mut dyn Io,
    ) -> Instant {
        let since = self.waiting.as_ref().map_or(seen.now, |waiting| waiting.since);
        let is_overdue = seen.now.saturating_duration_since(since) >= LONG_PENDING;
        let waiting = Some(Waiting { status: status.clone(), since, is_overdue });
        if self.waiting != waiting {
            let what = match status {
                CsrStatus::Approved => "is approved, but the hub's signer has not signed it",
                _ => &format!("is not approved yet{}", seen.approve(name)),
            };
            let level = if is_overdue { Warn } else { Info };
            io.notify(level, super::PENDING, format!("CSR {name} {what}"));
            self.waiting = waiting;
        }
        seen.now + MAX_BACKOFF
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
        (self.posted, self.waiting) = (false, None);
        let chain = certificate::chain(pem).unwrap_or_default();
        self.rotated = Some(updated(deadline::rotated_message(&chain)));
        let message = format!("the certificate of CSR {} is in {}", request.name, seen.secret);
        io.notify(Info, super::SAVED, message);
        Ok(seen.now)
    }
}

fn updated(message: String) -> Condition {
    Condition::new("True", "ClientCertificateUpdated", message)
}

fn not_updated(message: String) -> Condition {
    Condition::new("False", "ClientCertificateUpdateFailed", message)
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
