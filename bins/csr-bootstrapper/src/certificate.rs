//! Certificate of the cluster or of an add-on, from its need to the Secret that holds it.
//!
//! `Certificate::sync` takes one step at a time, like client-go's `rotateCerts`, and reaches both clusters only
//! through the trait `Io`. `manager.rs` is the cluster's loop, `cluster.rs` its `Io`. The model implements
//! `Io`, too.

pub(crate) mod cluster;
pub mod csr;
pub mod csr_status;
pub(crate) mod csrs;
pub(crate) mod io;
pub(crate) mod manager;
pub mod pkcs10;
pub mod validate;

use std::{
    mem,
    time::{Duration, Instant},
};

use apiclient::{
    certificate,
    error::{Error, Result},
};
use log::Level::{Info, Warn};

use self::{
    csr::CertificateRequest,
    csr_status::{CsrFailure, CsrStatus, Judge, MAX_PENDING, evaluate},
    io::{CertificateContext, Requester},
    validate::{Need, NeedReason, Validation},
};
use crate::{
    clocks::{self, Clocks},
    conditions::Condition,
    pacing::{CredentialPace, MAX_BACKOFF, REST_REFUSED, REST_SHORT},
    sha256,
};

const HALTED: &str = "ClientCertificateCreationHalted";
const CREATED: &str = "CSRCreated";
const PENDING: &str = "CSRPending";
const SAVED: &str = "ClientCertificateCreated";
const GONE: &str = "CSRGone";
const REPAIRED: &str = "SecretSave";

/// How long a CSR is pending before it is reported again (kubelet gives up by then: client-go
/// `util/certificate/certificate_manager.go:48-50`).
const LONG_PENDING: Duration = Duration::from_secs(900);
/// The interval of counts on a hub with too many pending requests.
const HALT: Duration = Duration::from_secs(60);

/// Messages of condition ClusterCertificateRotated, in upstream's words.
const TOO_MANY: &str = "Stop creating csr since there are too many csr created already on hub";
const NOT_CREATED: &str = "Failed to create CSR";

/// The progress of one certificate: plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Certificate {
    /// The name of the stored request at the last step.
    request: Option<String>,
    /// Whether this request ended without a certificate: the next one needs a new key.
    ended: bool,
    requester: Option<Requester>,
    /// Whether the requester's hub has room for one more CSR.
    counted: bool,
    /// Whether this process has seen its CSR on that hub.
    posted: bool,
    waiting: Option<Waiting>,
    /// The hash of this process's last certificate, and the end of its least time of use.
    obtained: Option<(String, Instant)>,
    pace: CredentialPace,
    /// Condition ClusterCertificateRotated, once known.
    pub(crate) rotated: Option<Condition>,
}

/// A CSR that waits for approval or signature.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    status: CsrStatus,
    since: Instant,
    is_overdue: bool,
}

impl Certificate {
    /// The name of the CSR that waits for an answer.
    pub(crate) fn waits_for(&self) -> Option<&str> {
        self.waiting.as_ref().and(self.request.as_deref())
    }

    /// Returns the need of the credential in `what` ("Secret ns/name").
    pub(crate) fn need(
        &self,
        what: &str,
        validation: &Validation,
        refused: bool,
        (clocks, now): (Clocks, Instant),
    ) -> Need {
        let due_in = validation.as_ref().map_or(Duration::ZERO, |usable| {
            let pem = &usable.identity.certificate;
            clocks::due_in(pem, &usable.chain, self.obtained.as_ref(), (clocks, now))
        });
        validate::need(what, validation, due_in, refused)
    }

    /// Takes the step that is due; returns when the next one is due if nothing changes.
    pub(crate) fn sync(&mut self, context: &mut CertificateContext<'_>) -> Result<Instant> {
        self.see_requester(context.requester);
        let stored = context.io.stored()?;
        self.see_request(stored.as_ref());
        let need = context.need;
        if !matches!(need, Need::Certificate(_)) {
            (self.counted, self.waiting) = (false, None);
        }
        match need {
            Need::Certificate(why) => self.obtain(why, stored, context),
            Need::Repair => self.repair(context),
            Need::Nothing(left) => self.finish(stored, context).map(|()| context.now + *left),
        }
    }

    /// Forgets what was observed of another request.
    fn see_request(&mut self, stored: Option<&CertificateRequest>) {
        let stored = stored.map(|request| request.name.clone());
        if self.request != stored {
            self.request = stored;
            (self.ended, self.posted, self.waiting) = (false, false, None);
        }
    }

    /// Forgets what another requester observed, or the same one on another hub. A rest lasts for both requesters of a
    /// hub: they alternate if the hub sometimes refuses the agent.
    fn see_requester(&mut self, requester: Option<&Requester>) {
        let Some(requester) = requester else { return };
        let known = self.requester.replace(requester.clone());
        if known.as_ref() == Some(requester) {
            return;
        }
        (self.counted, self.posted) = (false, false);
        if known.is_none_or(|known| known.hub != requester.hub) {
            self.pace.end_rest();
        }
    }

    /// Deletes the stored request once its certificate is saved.
    fn finish(
        &mut self,
        stored: Option<CertificateRequest>,
        context: &mut CertificateContext<'_>,
    ) -> Result<()> {
        // An earlier process may have ended before it reported its certificate, or somebody else may have saved one.
        if let Ok(usable) = context.validation {
            self.rotated = Some(Condition::rotated(&usable.chain));
        }
        match stored.is_some_and(|request| context.is_saved(&request)) {
            true => context.io.store(None),
            false => Ok(()),
        }
    }

    fn repair(&mut self, context: &mut CertificateContext<'_>) -> Result<Instant> {
        let CertificateContext { now, secret, .. } = *context;
        if let Some(until) = self.pace.next_write(now) {
            return Ok(until);
        }
        context.io.save(None)?;
        self.pace.wrote(false, now);
        let message = format!("repaired the kubeconfig and the names in {secret}");
        context.io.notify(Info, REPAIRED, message);
        Ok(now)
    }

    /// Requests a certificate, and saves it once the hub has issued it.
    fn obtain(
        &mut self,
        why: &NeedReason,
        stored: Option<CertificateRequest>,
        context: &mut CertificateContext<'_>,
    ) -> Result<Instant> {
        let CertificateContext { now, template, agent, requester, .. } = *context;
        let Some(requester) = requester else { return Ok(now + MAX_BACKOFF) };
        if let Some(until) = self.pace.resting(now) {
            return Ok(until);
        }
        // A key in use must not get another certificate.
        let is_open = |request: &CertificateRequest| !self.ended && !context.is_saved(request);
        let Some(request) = stored.filter(is_open) else { return self.begin(why, context) };
        let Some(csr) = context.io.csr(&request.name)? else { return self.post(&request, context) };
        self.posted = true;
        let (by_agent, clocks) = (requester.is_agent, context.io.clocks());
        let judge = Judge { request: &request, template, agent, by_agent, clocks };
        match evaluate(&csr, &judge) {
            Ok(CsrStatus::Issued(pem)) => self.save(why, (&request, &pem), context),
            Ok(status) => Ok(self.wait(&request.name, status, context)),
            Err(failure) => {
                self.end(&request.name, &failure, context);
                Ok(now)
            }
        }
    }

    /// Gives up the request, which ended without a certificate.
    fn end(&mut self, name: &str, failure: &CsrFailure, context: &mut CertificateContext<'_>) {
        (self.ended, self.waiting) = (true, None);
        let length = if failure.is_refusal() { REST_REFUSED } else { REST_SHORT };
        let rest = self.pace.ended(length, context.now, context.random);
        let sentence = format!("CSR {name} {}", failure.sentence);
        let message = format!("Failed to rotated client certificate {sentence}");
        self.rotated = Some(Condition::not_rotated(message));
        let message = format!("{sentence}; requesting another one in {} s", rest.as_secs());
        context.io.notify(Warn, failure.reason, message);
    }

    /// Creates and stores a request, unless the hub has too many pending ones.
    fn begin(&mut self, why: &NeedReason, context: &mut CertificateContext<'_>) -> Result<Instant> {
        if let Some(until) = self.pace.next_write(context.now) {
            return Ok(until);
        }
        // If the request cannot be stored, count again: the hub may have more by then.
        if !mem::take(&mut self.counted) {
            return self.count(context);
        }
        let request = context.io.new_request(&why.sentence)?;
        context.io.store(Some(&request))?;
        self.counted = true;
        // Without this error, each step would create another key.
        if context.io.stored()?.as_ref() != Some(&request) {
            return Err(Error::BadPeer(
                "the request read back differs from the request stored".into(),
            ));
        }
        Ok(context.now)
    }

    /// Counts the pending CSRs. The answer has the hub's time, by which the next step validates the credential.
    fn count(&mut self, context: &mut CertificateContext<'_>) -> Result<Instant> {
        let pending = context.io.pending().inspect_err(|error| self.not_created(error))?;
        self.counted = pending < MAX_PENDING;
        if self.counted {
            return Ok(context.now);
        }
        let halted = Some(Condition::not_rotated(TOO_MANY.to_owned()));
        if self.rotated != halted {
            context.io.notify(Warn, HALTED, TOO_MANY.to_owned());
            self.rotated = halted;
        }
        let until = context.now + HALT;
        self.pace.halted(until);
        Ok(until)
    }

    /// Posts the CSR, which the hub does not have; after a rest if the hub had it before, and after a count: another
    /// template makes another CSR of the same key.
    fn post(
        &mut self,
        request: &CertificateRequest,
        context: &mut CertificateContext<'_>,
    ) -> Result<Instant> {
        let (name, now, approve) = (&request.name, context.now, context.approve(&request.name));
        self.waiting = None;
        if mem::take(&mut self.posted) {
            let rest = self.pace.ended(REST_SHORT, now, context.random);
            let what = "is gone from the hub without an answer; posting it again";
            let message = format!("CSR {name} {what} in {} s", rest.as_secs());
            context.io.notify(Warn, GONE, message);
            return Ok(now + rest);
        }
        if !mem::take(&mut self.counted) {
            return self.count(context);
        }
        match context.io.create_csr(request) {
            Ok(()) => {
                self.posted = true;
                let message = format!("CSR {name} was created on the hub{approve}");
                context.io.notify(Info, CREATED, message);
                Ok(now)
            }
            Err(Error::AlreadyExists(_)) => Ok(now + REST_SHORT.0),
            Err(error) => {
                self.not_created(&error);
                Err(error)
            }
        }
    }

    /// Records an error. During an outage, the message of the first error stays.
    fn not_created(&mut self, error: &Error) {
        if self.rotated.as_ref().is_none_or(|known| !known.message.starts_with(NOT_CREATED)) {
            self.rotated = Some(Condition::not_rotated(format!("{NOT_CREATED} {error}")));
        }
    }

    fn wait(
        &mut self,
        name: &str,
        status: CsrStatus,
        context: &mut CertificateContext<'_>,
    ) -> Instant {
        let now = context.now;
        let since = self.waiting.as_ref().map_or(now, |waiting| waiting.since);
        let is_overdue = now.saturating_duration_since(since) >= LONG_PENDING;
        let waiting = Some(Waiting { status: status.clone(), since, is_overdue });
        if self.waiting != waiting {
            let what = match status {
                CsrStatus::Approved => "is approved, but the hub's signer has not signed it",
                _ => &format!("is not approved yet{}", context.approve(name)),
            };
            let level = if is_overdue { Warn } else { Info };
            context.io.notify(level, PENDING, format!("CSR {name} {what}"));
            self.waiting = waiting;
        }
        now + MAX_BACKOFF
    }

    fn save(
        &mut self,
        why: &NeedReason,
        (request, pem): (&CertificateRequest, &[u8]),
        context: &mut CertificateContext<'_>,
    ) -> Result<Instant> {
        let CertificateContext { now, validation, secret, .. } = *context;
        if let Some(until) = self.pace.next_write(now) {
            return Ok(until);
        }
        context.io.save(Some((pem, request)))?;
        // Only if it is the last certificate: an old one, restored by somebody, is due, too.
        let current = validation.as_ref().ok().map(|usable| sha256(&usable.identity.certificate));
        let is_last = self.obtained.as_ref().is_none_or(|(last, _)| Some(last) == current.as_ref());
        self.pace.saved(why.is_regular() && is_last, now);
        let used = clocks::least_use(pem, &context.io.clocks());
        self.obtained = Some((sha256(pem), now + used));
        (self.posted, self.waiting) = (false, None);
        self.rotated = Some(Condition::rotated(&certificate::chain(pem).unwrap_or_default()));
        let message = format!("the certificate of CSR {} is in {secret}", request.name);
        context.io.notify(Info, SAVED, message);
        Ok(now)
    }
}

#[cfg(test)]
pub(crate) use self::csr::tests::authority;

#[cfg(test)]
pub(crate) mod model;

#[cfg(test)]
mod tests {
    use kubeconfig::Hub;

    use super::{model::fixtures::hub, *};

    #[test]
    fn rest_lasts_until_another_hub_whoever_requests() {
        let (here, there) = (hub(), Hub { server: "https://other.example".into(), ..hub() });
        let (mut certificate, now) = (Certificate::default(), Instant::now());
        certificate.see_requester(Some(&Requester { is_agent: true, hub: here.clone() }));
        certificate.pace.ended(REST_REFUSED, now, 0.0);
        for (is_agent, hub, rests) in
            [(false, here.clone(), true), (true, here, true), (true, there, false)]
        {
            certificate.posted = true;
            certificate.see_requester(Some(&Requester { is_agent, hub }));
            assert_eq!(
                (certificate.pace.resting(now).is_some(), certificate.posted),
                (rests, false)
            );
        }
    }
}
