//! Certificate manager: the loop that keeps the cluster's certificate, and the session that uses it.

use std::time::{Duration, Instant};

use apiclient::{
    backoff::Backoff,
    error::{Error, Result},
    log_line::seconds,
    log_object,
    stop::Stop,
};
use kubeconfig::secret::Data;
use log::Level;

use super::{
    cluster_io::{ClusterIo, Connections},
    io::Observation,
    need::{self, Need, NewHub, Requester, requester},
    new_hub::NewHubCheck,
    readiness::ready,
    session::SessionControl,
    store::StoredRequest,
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
    agent: &'a Agent,
    names: AgentNames,
    certificate: Certificate,
    session: SessionControl,
    connections: Connections,
    new_hub: NewHubCheck,
    errors: Backoff,
    /// The time for which the hub may refuse the credential before another one is requested.
    patience: Duration,
    /// The last bootstrap kubeconfig.
    bootstrap: Option<BootstrapKubeconfig>,
    /// The need that was announced last.
    announced: Option<String>,
}

/// What one turn finds.
struct Turn {
    /// Nothing is left to do.
    is_settled: bool,
    /// Nothing changes before by time alone.
    until: Instant,
}

impl<'a> CertificateManager<'a> {
    /// Starts with the request that an earlier process stored.
    pub(crate) fn new(agent: &'a Agent, names: AgentNames, stored: StoredRequest) -> Self {
        let connections = Connections::new(stored);
        Self {
            agent,
            // An unreadable one is replaced, as if there were none.
            certificate: Certificate::new(connections.request(&names)),
            names,
            session: SessionControl::default(),
            connections,
            new_hub: NewHubCheck::default(),
            errors: Backoff::new(MAX_WAIT).honoring(MAX_PAUSE),
            patience: REFUSED_AFTER + REFUSED_AFTER.mul_f64(fastrand::f64()),
            bootstrap: None,
            announced: None,
        }
    }

    /// Manages the certificate until the end of the process (`None`), or with `-once` until the credential is usable or
    /// was checked once: whether it is.
    pub(crate) fn run(mut self) -> Option<bool> {
        let once = self.agent.settings.once;
        let is_check = once == Some(Duration::ZERO);
        loop {
            let seen = self.agent.stop.wakes();
            self.agent.beat();
            let turn = self.turn(!is_check);
            let is_usable = once.is_some() && turn.is_settled && ready(self.agent).is_ok();
            if is_usable || is_check {
                return Some(is_usable);
            }
            // No event tells this loop of changed files in -hub-kubeconfig-dir.
            let slice = if once.is_some() { ONCE_INTERVAL } else { Stop::SLICE };
            let until = turn.until.min(Instant::now() + slice);
            if self.agent.stop.wait_for_change(seen, until) {
                return None;
            }
        }
    }

    /// Does what is due, or only looks unless `acts`.
    fn turn(&mut self, acts: bool) -> Turn {
        let (agent, secret) = (self.agent, self.agent.secret_name());
        let bootstrap = agent.bootstrap();
        let (bootstrap, no_bootstrap) = (bootstrap.as_deref().ok(), bootstrap.as_ref().err());
        self.bootstrap_changed(bootstrap);
        let (data, validation) = self.validate(bootstrap);
        let clocks = agent.clocks();
        let followed = self.session.follow(agent, &self.names, &validation, bootstrap, clocks);
        match followed {
            // The watch and the client may belong to the ended session.
            Ok(true) => self.connections.close(agent, None),
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
        let hub = self.hub(&need, requester, bootstrap).cloned();
        let seen = Observation {
            need: &need,
            validation: &validation,
            key: data.get("tls.key").map(|key| key.as_slice()),
            requester: requester.zip(hub.as_ref()),
            approved_by_hand: requester == Some(Requester::Bootstrap),
            template: &self.names.csr_template(),
            agent: &self.names.user(),
            now,
            random: fastrand::f64(),
        };
        let is_settled = self.certificate.is_settled(&seen);
        if !acts {
            return Turn { is_settled, until: now };
        }
        if !matches!(need, Need::Certificate(_)) {
            let name = self.certificate.request().map(|request| &*request.name);
            self.connections.close(agent, name);
        }
        let mut io = ClusterIo {
            agent,
            names: &self.names,
            connections: &mut self.connections,
            requester,
            bootstrap,
            hub: hub.as_ref(),
            validation: &validation,
            failed_secret: false,
        };
        let is_retried = self.certificate.pacing.failing(requester, now).is_none();
        if is_retried && self.errors.failures() > 0 {
            // The next status says more than the last failure.
            agent.report(|status| status.detail = None);
        }
        let synced = self.certificate.sync(&seen, &mut io);
        let failed_secret = io.failed_secret;
        if agent.read(|state| state.rotated.as_ref() != self.certificate.rotated()) {
            agent.update(|state| state.rotated = self.certificate.rotated().cloned());
        }
        let until = self.conclude(synced, requester, failed_secret);
        let ends = expiry.map(|end| now + clocks.until_past(end));
        let checks =
            self.new_hub.not_before().filter(|_| matches!(validation, Validation::Moved(..)));
        let changes = [ends, refused_at, checks].into_iter().flatten().filter(|at| *at > now);
        let until = changes.map(|at| at + MARGIN).fold(until, Instant::min);
        Turn { is_settled, until }
    }

    /// Ends rests and waits if the bootstrap kubeconfig is another one.
    fn bootstrap_changed(&mut self, bootstrap: Option<&BootstrapKubeconfig>) {
        if self.bootstrap.as_ref() != bootstrap {
            self.bootstrap = bootstrap.cloned();
            self.certificate.pacing.restart();
            self.connections.introduce_again();
            self.new_hub = NewHubCheck::default();
        }
    }

    fn validate(&self, bootstrap: Option<&BootstrapKubeconfig>) -> (Data, Validation) {
        let clocks = self.agent.clocks();
        match validate::content(self.agent.credential_secret().as_deref()) {
            Ok(data) => {
                let hub = bootstrap.map(|bootstrap| &bootstrap.hub);
                let validation = validate::validate(&data, hub, &self.names, clocks);
                (data, validation)
            }
            Err(unusable) => (Data::new(), Validation::Unusable(unusable)),
        }
    }

    fn check_new_hub(
        &mut self,
        validation: &Validation,
        bootstrap: Option<&BootstrapKubeconfig>,
    ) -> NewHub {
        match (validation, bootstrap) {
            (Validation::Moved(usable, _), Some(bootstrap)) => {
                let config = bootstrap.as_agent(&usable.identity);
                self.new_hub.check(self.agent, &self.names.cluster, config)
            }
            _ => NewHub::Silent,
        }
    }

    /// Returns whether the hub refuses the credential permanently, and the time at which it will.
    fn refused(&self) -> (bool, Option<Instant>) {
        match self.agent.session().and_then(|session| session.client.refused()) {
            Some(refused) => {
                let at = refused.since + self.patience;
                // Only a response that recent shows the hub's current answer.
                (refused.last >= at, Some(at))
            }
            None => (false, None),
        }
    }

    /// The hub that `requester` asks, and whose kubeconfig goes into the Secret.
    fn hub<'b>(
        &'b self,
        need: &Need,
        requester: Option<Requester>,
        bootstrap: Option<&'b BootstrapKubeconfig>,
    ) -> Option<&'b Hub> {
        let (bootstrap, session) =
            (bootstrap.map(|bootstrap| &bootstrap.hub), self.session.hub.as_ref());
        match (need, requester) {
            (Need::Certificate(_), Some(Requester::Agent)) => session.or(bootstrap),
            _ => bootstrap.or(session),
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
            self.agent.report(|status| status.detail = None);
            if let (Some(event), Some(sentence)) = (event, &sentence) {
                self.agent.record_event(event, false, sentence);
            }
            self.announced.clone_from(&sentence);
        }
        let is_usable = matches!(validation, Validation::Usable(_)) && !is_refused;
        self.agent.report(|status| {
            status.trouble = sentence.filter(|_| !is_usable);
            if !self.certificate.is_waiting() {
                status.pending = None;
            }
        });
    }

    /// Logs the result of a step, and backs off after a failure; returns when to come again.
    fn conclude(
        &mut self,
        synced: Result<Instant>,
        requester: Option<Requester>,
        failed_secret: bool,
    ) -> Instant {
        let error = match synced {
            Ok(until) => {
                let is_over = self.certificate.pacing.failing(requester, Instant::now()).is_none();
                let failures = if is_over { self.errors.succeeded() } else { 0 };
                if failures > 0 {
                    log_object!(Level::Info, self.agent.credential(), failures = failures;
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
        self.agent.report(|status| status.detail = Some(error.to_string()));
        let is_of_secret = match error {
            Error::Immutable(_) => true,
            Error::Forbidden(_) => failed_secret,
            _ => false,
        };
        if retry.should_log && is_of_secret {
            self.agent.record_event("SecretSaveFailed", true, error.message());
        }
        let level = if retry.should_log { Level::Warn } else { Level::Debug };
        let retry_in = seconds(retry.wait);
        log_object!(
            level, self.agent.credential(), error:% = error, retry_in = retry_in;
            "managing the certificate failed"
        );
        now + retry.wait
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
