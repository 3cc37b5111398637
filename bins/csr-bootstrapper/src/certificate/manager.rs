//! Certificate manager: the loop that keeps the cluster's certificate.

use std::time::{Duration, Instant};

use apiclient::{
    backoff::Backoff,
    error::{Error, Result},
    log_line::seconds,
    log_object,
    stop::Stop,
};
use log::Level;

use super::{
    cluster::ClusterIo,
    io::Observation,
    need::{self, Need, NewHub, Requester, requester},
    readiness::ready,
    session::{self, NewHubCheck},
    store::RequestStore,
    sync::Certificate,
    validate::{self, Validation},
};
use crate::{
    agent::Agent,
    bootstrap::{BootstrapError, BootstrapKubeconfig},
    hub::Hub,
    identity::AgentNames,
};

/// The longest wait of the loop while a caller waits for its result.
const ONCE_INTERVAL: Duration = Duration::from_secs(1);
/// Margin after the end of a certificate.
const MARGIN: Duration = Duration::from_millis(100);
/// The longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The longest wait that a hub can ask for.
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// A credential counts as refused after nothing but 401 for this long, or up to twice as long: the hub may just be
/// restarting, and the jitter keeps a fleet from returning at once.
const REFUSED_AFTER: Duration = Duration::from_secs(30);

/// Keeps a certificate for the hub in the Secret.
pub(crate) struct CertificateManager<'a> {
    cluster: ClusterIo<'a>,
    certificate: Certificate,
    /// The hub that the bootstrap kubeconfig leads to, while the credential is for another one.
    new_hub: Option<NewHubCheck>,
    errors: Backoff,
    /// The time for which the hub may refuse the credential before another one is requested.
    patience: Duration,
    /// The need that was announced last.
    announced: Option<String>,
}

impl<'a> CertificateManager<'a> {
    /// Starts with the request that an earlier process stored.
    pub(crate) fn new(agent: &'a Agent, names: AgentNames, store: RequestStore) -> Self {
        let cluster = ClusterIo::new(agent, names, store);
        Self {
            certificate: Certificate::new(cluster.request()),
            cluster,
            new_hub: None,
            errors: Backoff::new(MAX_WAIT).honoring(MAX_PAUSE),
            patience: REFUSED_AFTER + REFUSED_AFTER.mul_f64(fastrand::f64()),
            announced: None,
        }
    }

    /// Manages the certificate until the end of the process (`None`), or with `-once` until the credential is usable or
    /// was checked once: whether it is.
    pub(crate) fn run(mut self) -> Option<bool> {
        let agent = self.cluster.agent;
        let once = agent.settings.once;
        let is_check = once == Some(Duration::ZERO);
        loop {
            let seen = agent.stop.wakes();
            agent.beat();
            let (is_settled, until) = self.turn(!is_check);
            let is_usable = once.is_some() && is_settled && ready(agent).is_ok();
            if is_usable || is_check {
                return Some(is_usable);
            }
            // No event tells this loop of changed files in -hub-kubeconfig-dir.
            let slice = if once.is_some() { ONCE_INTERVAL } else { Stop::SLICE };
            let until = until.min(Instant::now() + slice);
            if agent.stop.wait_for_change(seen, until) {
                return None;
            }
        }
    }

    /// Does what is due, or only looks unless `acts`; returns whether nothing is left to do, and when to come again.
    fn turn(&mut self, acts: bool) -> (bool, Instant) {
        let (agent, secret) = (self.cluster.agent, self.cluster.agent.secret_name());
        let bootstrap = agent.bootstrap();
        let (bootstrap, no_bootstrap) = (bootstrap.as_ref().ok(), bootstrap.as_ref().err());
        if self.cluster.set_bootstrap(bootstrap.cloned()) {
            self.certificate.pacing.restart();
        }
        let (bootstrap, names) = (bootstrap.map(|it| &**it), self.cluster.names.clone());
        let (data, validation) =
            validate::of_secret(agent.credential_secret().as_deref(), |data| {
                let hub = bootstrap.map(|bootstrap| &bootstrap.hub);
                validate::validate(data, hub, &names, agent.clocks())
            });
        match session::follow(agent, &names, &validation, bootstrap) {
            // The watch and the client may belong to the ended session.
            Ok(true) => self.cluster.close(None),
            Ok(false) => {}
            Err(error) => log_object!(
                Level::Warn, agent.credential(), error:% = error;
                "keeping the current credentials"
            ),
        }
        let new_hub = self.check_new_hub(&validation, bootstrap);
        let (clocks, now) = (agent.clocks(), Instant::now());
        let (is_refused, refused_at) = self.refused();
        let expiry = agent.session().and_then(|session| session.client.certificate_expiry());
        let need =
            self.certificate.need(&secret, &validation, (is_refused, new_hub), (clocks, now));
        let is_agent_valid = !is_refused && expiry.is_some_and(|end| !clocks.are_past(end));
        let requester = requester(is_agent_valid, bootstrap.is_some(), new_hub);
        self.announce(&secret, (&validation, &need), requester, no_bootstrap, is_refused);
        let hub = hub(agent, &need, requester, bootstrap);
        let seen = Observation {
            secret: &secret,
            need: &need,
            validation: &validation,
            key: data.get("tls.key").map(|key| key.as_slice()),
            requester: requester.zip(hub.as_ref()),
            approved_by_hand: requester == Some(Requester::Bootstrap),
            template: &names.csr_template(),
            agent: &names.user(),
            now,
            random: fastrand::f64(),
        };
        let is_settled = self.certificate.is_settled(&seen);
        if !acts {
            return (is_settled, now);
        }
        if !matches!(need, Need::Certificate(_)) {
            self.cluster.close(self.certificate.request().map(|request| &*request.name));
        }
        let is_good = matches!(&validation, Validation::Usable(usable) if !usable.stale);
        self.cluster.hub = hub.clone().filter(|_| !is_good);
        (self.cluster.requester, self.cluster.failed_secret) = (requester, false);
        let is_retried = self.certificate.pacing.failing(requester, now).is_none();
        if is_retried && self.errors.failures() > 0 {
            // The next status says more than the last failure.
            agent.report(|status| status.detail = None);
        }
        let synced = self.certificate.sync(&seen, &mut self.cluster);
        if agent.read(|state| state.rotated.as_ref() != self.certificate.rotated()) {
            agent.update(|state| state.rotated = self.certificate.rotated().cloned());
        }
        let until = self.conclude(synced, requester);
        let ends = expiry.map(|end| now + clocks.until_past(end));
        let checks = self.new_hub.as_ref().map(|check| check.not_before);
        let changes = [ends, refused_at, checks].into_iter().flatten().filter(|at| *at > now);
        let until = changes.map(|at| at + MARGIN).fold(until, Instant::min);
        (is_settled, until)
    }

    fn check_new_hub(
        &mut self,
        validation: &Validation,
        bootstrap: Option<&BootstrapKubeconfig>,
    ) -> NewHub {
        let (Validation::Moved(usable, _), Some(bootstrap)) = (validation, bootstrap) else {
            self.new_hub = None;
            return NewHub::Silent;
        };
        let config = bootstrap.as_agent(&usable.identity);
        let known = self.new_hub.take().filter(|check| check.is_of(&config));
        let check = self.new_hub.insert(known.unwrap_or_else(|| NewHubCheck::new(config)));
        check.check(self.cluster.agent, &self.cluster.names.cluster)
    }

    /// Returns whether the hub refuses the credential permanently, and the time at which it will.
    fn refused(&self) -> (bool, Option<Instant>) {
        match self.cluster.agent.session().and_then(|session| session.client.refused()) {
            Some(refused) => {
                let at = refused.since + self.patience;
                // Only a response that recent shows the hub's current answer.
                (refused.last >= at, Some(at))
            }
            None => (false, None),
        }
    }

    /// Announces the need, with one Event for each new reason, and reports it on the endpoint.
    fn announce(
        &mut self,
        secret: &str,
        (validation, need): (&Validation, &Need),
        requester: Option<Requester>,
        no_bootstrap: Option<&BootstrapError>,
        is_refused: bool,
    ) {
        let agent = self.cluster.agent;
        let why = match (validation, need) {
            (Validation::Moved(_, word), _) => {
                Some((validate::OTHER_DATA, need::moved(secret, word)))
            }
            (_, Need::Certificate(why)) => Some((why.event, why.sentence.clone())),
            _ => None,
        };
        let (event, sentence) = why.unzip();
        let sentence = sentence.map(|sentence| sentence + no_requester(requester, no_bootstrap));
        let is_selecting =
            requester.is_none() && no_bootstrap == Some(&BootstrapError::NotSelected(None));
        if self.announced != sentence && !is_selecting {
            agent.report(|status| status.detail = None);
            if let (Some(event), Some(sentence)) = (event, &sentence) {
                agent.record_event(event, false, sentence);
            }
            self.announced.clone_from(&sentence);
        }
        let is_usable = matches!(validation, Validation::Usable(_)) && !is_refused;
        agent.report(|status| {
            status.trouble = sentence.filter(|_| !is_usable);
            if !self.certificate.is_waiting() {
                status.pending = None;
            }
        });
    }

    /// Logs the result of a step, and backs off after a failure; returns when to come again.
    fn conclude(&mut self, synced: Result<Instant>, requester: Option<Requester>) -> Instant {
        let agent = self.cluster.agent;
        let error = match synced {
            Ok(until) => {
                let is_over = self.certificate.pacing.failing(requester, Instant::now()).is_none();
                let failures = if is_over { self.errors.succeeded() } else { 0 };
                if failures > 0 {
                    log_object!(Level::Info, agent.credential(), failures = failures;
                        "the certificate is managed again"
                    );
                }
                return until;
            }
            Err(error) => error,
        };
        let now = Instant::now();
        let retry = self.errors.failed(&error, now, fastrand::f64());
        self.certificate.pacing.failed(requester, now + retry.wait);
        agent.report(|status| status.detail = Some(error.to_string()));
        let is_of_secret = match error {
            Error::Immutable(_) => true,
            Error::Forbidden(_) => self.cluster.failed_secret,
            _ => false,
        };
        if retry.should_log && is_of_secret {
            agent.record_event("SecretSaveFailed", true, error.message());
        }
        let is_routine = matches!(error, Error::Conflict(_));
        let level = if is_routine { Level::Debug } else { retry.level() };
        let retry_in = seconds(retry.wait);
        log_object!(
            level, agent.credential(), error:% = error, retry_in = retry_in;
            "managing the certificate failed"
        );
        now + retry.wait
    }
}

/// The hub that `requester` asks, and whose kubeconfig goes into the Secret.
fn hub(
    agent: &Agent,
    need: &Need,
    requester: Option<Requester>,
    bootstrap: Option<&BootstrapKubeconfig>,
) -> Option<Hub> {
    let session = || agent.session().map(|session| session.hub.clone());
    let bootstrap = bootstrap.map(|bootstrap| bootstrap.hub.clone());
    match (need, requester) {
        (Need::Certificate(_), Some(Requester::Agent)) => session().or(bootstrap),
        _ => bootstrap.or_else(session),
    }
}

/// Ends the sentence about a need that has no requester.
fn no_requester(
    requester: Option<Requester>,
    no_bootstrap: Option<&BootstrapError>,
) -> &'static str {
    match (requester, no_bootstrap) {
        (Some(_), _) => "",
        (None, Some(BootstrapError::NotSelected(_))) => {
            ", and no hub is selected to request one from"
        }
        (None, _) => ", and there is no bootstrap kubeconfig to request one with",
    }
}
