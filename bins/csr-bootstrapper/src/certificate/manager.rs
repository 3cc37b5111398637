//! Certificate manager: the loop that observes, lets the machine decide, and performs.

use std::time::{Duration, Instant};

use apiclient::{
    backoff::Backoff,
    error::{Error, Result},
    log_line::seconds,
    log_object,
    stop::Stop,
};
use kubeconfig::secret;
use log::Level;
use serde_json::Value;

use super::{
    csr::CertificateRequest,
    machine::{CertificateAction, CsrMachine},
    need::{Need, Requester},
    observe::{Inputs, ObservedCredential, SessionChange, SessionInputs, observe},
    perform::Performer,
    readiness::ready,
};
use crate::{
    agent::Agent,
    bootstrap::{BootstrapKubeconfig, NoBootstrap},
    hub::Hub,
    identity::AgentNames,
    state::Rotated,
};

/// The longest wait of the loop while a caller waits for its result.
const LOOK_ONCE: Duration = Duration::from_secs(1);
/// Margin after the end of a certificate.
const MOMENT: Duration = Duration::from_millis(100);
/// The longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The longest wait that a hub can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// A credential counts as refused after nothing but 401 for this long, or up to twice as long: the hub may just be
/// restarting, and the jitter keeps a fleet from returning at once.
const REFUSED_AFTER: Duration = Duration::from_secs(30);

/// The goal of a single run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnceGoal {
    /// Check the credential.
    Check,
    /// Obtain one.
    Obtain,
}

/// Keeps a certificate for the hub in the Secret.
pub(crate) struct CertificateManager<'a> {
    agent: &'a Agent,
    names: AgentNames,
    machine: CsrMachine,
    performer: Performer<'a>,
    errors: Backoff,
    /// The time for which the hub may refuse the credential before another one is requested.
    patience: Duration,
    /// The version of the last bootstrap kubeconfig, and its hub.
    bootstrap_seen: (u64, Option<Hub>),
}

impl<'a> CertificateManager<'a> {
    /// Starts with the request that an earlier process stored.
    pub(crate) fn new(agent: &'a Agent, names: AgentNames, stored: Option<Value>) -> Self {
        // An unreadable one is replaced, as if there were none.
        let data = stored.as_ref().and_then(|stored| secret::data(stored).ok());
        let request = data.and_then(|data| CertificateRequest::of_secret(&data, &names));
        Self {
            agent,
            performer: Performer::new(agent, names.clone(), stored),
            names,
            machine: CsrMachine::new(request),
            errors: Backoff::new(LONGEST_WAIT).honoring(LONGEST_PAUSE),
            patience: REFUSED_AFTER + REFUSED_AFTER.mul_f64(fastrand::f64()),
            bootstrap_seen: (0, None),
        }
    }

    /// Manages the certificate until the end of the process (`None`), or until the goal `once` is reached:
    /// whether the credential is usable.
    pub(crate) fn run(mut self, once: Option<OnceGoal>) -> Option<bool> {
        loop {
            let seen = self.agent.stop.wakes();
            let (observed, action) = self.decide();
            // Leave behind neither a used key nor a kubeconfig that leads nowhere.
            let settled =
                action != CertificateAction::DeleteRequest && observed.need != Need::Repair;
            let usable = || settled && ready(self.agent).is_ok();
            match once {
                Some(OnceGoal::Check) => return Some(usable()),
                Some(OnceGoal::Obtain) if usable() => return Some(true),
                _ => {}
            }
            let stopped = if let CertificateAction::Wait(until) = action {
                // No event tells this loop of changed files in -hub-kubeconfig-dir.
                let slice = if once.is_some() { LOOK_ONCE } else { Stop::SLICE };
                let until = until.min(Instant::now() + slice);
                let until = observed.again.map_or(until, |again| until.min(again + MOMENT));
                self.agent.stop.wait_for_change(seen, until)
            } else {
                self.perform(&action, &observed);
                self.agent.stop.raised()
            };
            if stopped {
                return None;
            }
        }
    }

    /// Observes and decides, and performs preparations until another action is next.
    fn decide(&mut self) -> (ObservedCredential, CertificateAction) {
        self.performer.begin_turn();
        self.agent.beat();
        let bootstrap = self.see_bootstrap();
        loop {
            let (observed, action) = self.next_action(bootstrap.clone());
            if !action.is_preparation() {
                return (observed, action);
            }
            self.performer.prepare(&mut self.machine, &action, &observed);
        }
    }

    /// Observes once and decides.
    fn next_action(
        &mut self,
        bootstrap: (Option<BootstrapKubeconfig>, NoBootstrap),
    ) -> (ObservedCredential, CertificateAction) {
        let (secret_name, now) = (self.agent.secret_name(), Instant::now());
        let observed = observe(&self.inputs(&secret_name, bootstrap, now));
        // Nothing else counts before the session uses the credential.
        if observed.session == SessionChange::Nothing {
            self.machine.saw(&observed, now);
            self.report(&observed);
        }
        let action = self.machine.next(&observed, now);
        (observed, action)
    }

    /// The bootstrap kubeconfig, or else the reason why there is none, which stays the same for the whole turn. A new
    /// one ends rests, and one for another hub also clears the answers of the last.
    fn see_bootstrap(&mut self) -> (Option<BootstrapKubeconfig>, NoBootstrap) {
        let (bootstrap, version, no_bootstrap) = self.agent.read(|state| {
            (state.bootstrap.clone(), state.bootstrap_version, state.hubs.no_bootstrap())
        });
        let hub = bootstrap.as_ref().map(|bootstrap| bootstrap.hub.clone());
        if self.bootstrap_seen.0 != version {
            self.machine.bootstrap_replaced(self.bootstrap_seen.1 != hub);
            self.bootstrap_seen = (version, hub);
        }
        (bootstrap, no_bootstrap)
    }

    fn inputs<'b>(
        &'b self,
        secret_name: &'b str,
        (bootstrap, no_bootstrap): (Option<BootstrapKubeconfig>, NoBootstrap),
        now: Instant,
    ) -> Inputs<'b> {
        let (agent, machine, performer) = (self.agent, &self.machine, &self.performer);
        let (credential, session) = agent.read(|state| (state.credential.clone(), state.session()));
        Inputs {
            secret_name,
            names: &self.names,
            credential,
            bootstrap,
            no_bootstrap,
            session: session.map(|session| SessionInputs {
                config: session.client.config(),
                expires: session.client.certificate_expiry(),
                refused: session.client.refused(),
            }),
            hub: performer.session().hub(),
            session_announced: performer.session().is_announced(),
            patience: self.patience,
            hub_move: machine.hub_move(),
            obtained: machine.obtained(),
            request: machine.open_request(),
            uid: machine.uid(),
            issued: machine.issued(),
            watched: performer.csr_watcher().watched(now),
            requester_open: performer.csr_watcher().is_open(),
            attempts: performer.attempts(),
            clocks: agent.clocks(),
            requester_clocks: agent.requester_clocks(),
            now,
        }
    }

    /// Reports the observation on the endpoint.
    fn report(&self, observed: &ObservedCredential) {
        self.agent.report(|status| {
            status.trouble = observed.sentence.clone().filter(|_| !observed.usable);
            if let Some(pending) = &observed.pending {
                status.detail = Some(pending.clone());
            }
            if !self.machine.is_waiting() {
                status.pending = None;
            }
        });
    }

    fn perform(&mut self, action: &CertificateAction, observed: &ObservedCredential) {
        if self.errors.failures() > 0 {
            // The next status says more than the last failure.
            self.agent.report(|status| status.detail = None);
        }
        let result = self.performer.perform(&mut self.machine, action, observed);
        self.conclude(action, observed.requester, result);
    }

    /// Logs the result of `action`, and backs off after a failure.
    fn conclude(
        &mut self,
        action: &CertificateAction,
        requester: Option<Requester>,
        result: Result<()>,
    ) {
        let Err(error) = result else {
            let failures = self.errors.succeeded();
            if failures > 0 {
                log_object!(Level::Info, self.agent.credential(), failures = failures;
                    "the certificate is managed again"
                );
            }
            return;
        };
        let now = Instant::now();
        let retry = self.errors.failed(&error, now, fastrand::f64());
        // The bootstrap identity waits no longer than the new hub has time to know the agent.
        let patience = self.machine.hub_move().patience(now);
        let wait = patience.map_or(retry.wait, |left| retry.wait.min(left));
        self.machine.failed(now, wait, requester.filter(|_| action.is_on_the_hub()));
        self.agent.report(|status| status.detail = Some(error.to_string()));
        let creates =
            matches!(action, CertificateAction::CountPending | CertificateAction::CreateCsr);
        if retry.should_log && creates {
            self.agent.set_rotated(Rotated::Failed(format!("Failed to create CSR {error}")));
        }
        let of_secrets = match error {
            Error::Immutable(_) => true,
            Error::Forbidden(_) => !action.is_on_the_hub(),
            _ => false,
        };
        if retry.should_log && of_secrets {
            self.agent.record_event("SecretSaveFailed", true, error.message());
        }
        let level = if retry.should_log { Level::Warn } else { Level::Debug };
        let retry_in = seconds(wait);
        log_object!(
            level, self.agent.credential(), error:% = error, retry_in = retry_in;
            "managing the certificate failed"
        );
    }
}

#[cfg(test)]
mod tests;
