//! Requests to the hub for a certificate, as any requester.

use std::time::{Duration, Instant};

use apiclient::{
    client::Client,
    error::{Error, Result},
    log_object,
    resource::valid_name,
};
use log::Level;

use super::{
    csr::CSRS,
    csr_status::MOST_PENDING,
    csr_watch::CsrWatcher,
    machine::{CertificateAction, CsrMachine},
    need::Requester,
    observe::{ObservedCredential, WatchAttempt},
};
use crate::{
    agent::Agent,
    cached::CachedObject,
    identity::AgentNames,
    managedcluster::{self, MANAGED_CLUSTERS},
    state::Rotated,
};

/// The time until a hub with too many requests is asked again.
const HALTED: Duration = Duration::from_secs(60);

/// Performs requests to the hub and reports the answers to the machine.
pub(crate) struct HubRequester<'a> {
    agent: &'a Agent,
    names: AgentNames,
    csr_watcher: CsrWatcher,
}

impl<'a> HubRequester<'a> {
    pub(crate) fn new(agent: &'a Agent, names: AgentNames) -> Self {
        Self { agent, names, csr_watcher: CsrWatcher::default() }
    }

    pub(crate) fn csr_watcher(&self) -> &CsrWatcher {
        &self.csr_watcher
    }

    /// Closes the client and the watch of the requester.
    pub(crate) fn close(&mut self) {
        self.csr_watcher.close(self.agent);
    }

    /// Watches the CSR of the stored request.
    pub(crate) fn watch_csr(
        &mut self,
        machine: &mut CsrMachine,
        observed: &ObservedCredential,
    ) -> WatchAttempt {
        let (Some(requester), Some(request)) = (observed.requester, machine.request()) else {
            return WatchAttempt::Awaited;
        };
        // The next action reports a client that cannot be made.
        let config = observed.config(requester);
        let Ok(client) = self.csr_watcher.client(self.agent, requester, config) else {
            return WatchAttempt::NoClient;
        };
        match self.csr_watcher.watch(self.agent, requester, &client, &request.name) {
            Ok(()) => machine.watched(),
            Err(error) => {
                let target = CSRS.cluster_object(&request.name);
                log_object!(Level::Debug, target, error:% = error; "the CSR is not watched");
            }
        }
        WatchAttempt::Awaited
    }

    /// Performs an action that the hub answers.
    ///
    /// # Errors
    /// As the hub says.
    pub(crate) fn request(
        &mut self,
        machine: &mut CsrMachine,
        action: &CertificateAction,
        observed: &ObservedCredential,
    ) -> Result<()> {
        let Some(requester) = observed.requester else { return Ok(()) };
        let config = observed.config(requester);
        let client = self.csr_watcher.client(self.agent, requester, config)?;
        let result = match action {
            CertificateAction::CountPending => self.count_pending(machine, &client, requester),
            CertificateAction::CreateManagedCluster => self.introduce(machine, &client),
            CertificateAction::CreateCsr => self.create_csr(machine, &client, requester),
            CertificateAction::ConfirmGone => self.confirm_gone(machine, &client, requester),
            _ => self.get_csr(machine, &client),
        };
        let refused = matches!(&result, Err(Error::Unauthorized(_) | Error::Forbidden(_)));
        if let (Requester::AgentAtNewHub, true, Err(error)) = (requester, refused, &result) {
            log::debug!(error:% = error; "the hub at the new address does not know this agent");
        }
        machine.answered(requester, &result, Instant::now());
        result
    }

    fn count_pending(
        &self,
        machine: &mut CsrMachine,
        client: &Client,
        requester: Requester,
    ) -> Result<()> {
        let pending = match CsrWatcher::pending(client, &self.names, &self.agent.stop) {
            // Without the right to list requests one may still post, unless the new hub does not know the
            // agent.
            Err(error @ Error::Forbidden(_)) if requester != Requester::AgentAtNewHub => {
                log::info!(
                    cluster = self.names.cluster, error:% = error;
                    "pending CSRs are not counted"
                );
                Vec::new()
            }
            pending => pending?,
        };
        if pending.len() < MOST_PENDING {
            machine.counted();
            return Ok(());
        }
        let halted = Rotated::Halted.message();
        // Names come from the hub, and people paste the command into a shell.
        let names: Vec<&str> =
            pending.iter().map(String::as_str).filter(|name| valid_name(name)).collect();
        let message = match names[..] {
            [] => halted.to_owned(),
            _ => format!("{halted}: kubectl delete csr {}", names.join(" ")),
        };
        if self.agent.read(|state| state.rotated != Some(Rotated::Halted)) {
            self.agent.record_event("ClientCertificateCreationHalted", true, &message);
        }
        self.agent.set_rotated(Rotated::Halted);
        machine.halted(requester, Instant::now(), HALTED);
        self.agent.report(|status| status.detail = Some(message));
        Ok(())
    }

    fn introduce(&self, machine: &mut CsrMachine, client: &Client) -> Result<()> {
        match managedcluster::introduce(client, self.agent, &self.names) {
            Ok(true) => {
                let message = format!("ManagedCluster {} was created", self.names.cluster);
                self.agent.record_event("ManagedClusterCreated", false, &message);
            }
            Ok(false) => {}
            // A CSR may be posted all the same.
            Err(error @ (Error::Unauthorized(_) | Error::Forbidden(_))) => {
                if machine.not_introduced(Instant::now()) {
                    let target = MANAGED_CLUSTERS.cluster_object(&self.names.cluster);
                    log_object!(
                        Level::Warn, target, error:% = error;
                        "the ManagedCluster is not created"
                    );
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        machine.introduced(Instant::now(), fastrand::f64());
        Ok(())
    }

    fn create_csr(
        &mut self,
        machine: &mut CsrMachine,
        client: &Client,
        requester: Requester,
    ) -> Result<()> {
        let Some(request) = machine.request() else { return Ok(()) };
        let name = request.name.clone();
        let object = request.object(&self.names.csr_template(), self.agent.settings.expiration);
        let target = CSRS.cluster_object(&name);
        let events = self.csr_watcher.events();
        let csr = match client.create(&target, &object) {
            // The watch lags behind, or the answer to an earlier attempt was lost.
            Err(Error::AlreadyExists(_)) => client.get(&target)?,
            created => {
                let csr = created?;
                machine.posted(&csr);
                self.agent.report(|status| status.posted += 1);
                // The hub approves the agent's own requests.
                let approve = match requester {
                    Requester::Bootstrap => format!(": kubectl certificate approve {name}"),
                    _ => String::new(),
                };
                let message = format!("CSR {name} was created on the hub{approve}");
                self.agent.record_event("CSRCreated", false, &message);
                csr
            }
        };
        self.csr_watcher.answered(CachedObject::Object(csr), events);
        Ok(())
    }

    /// Reads the CSR while the watch does not show it.
    fn get_csr(&mut self, machine: &CsrMachine, client: &Client) -> Result<()> {
        let Some(request) = machine.request() else { return Ok(()) };
        let events = self.csr_watcher.events();
        let seen = CachedObject::of(client.get(&CSRS.cluster_object(&request.name)))?;
        self.csr_watcher.answered(seen, events);
        Ok(())
    }

    /// Confirms that the CSR is gone: the watch may lag behind.
    fn confirm_gone(
        &mut self,
        machine: &mut CsrMachine,
        client: &Client,
        requester: Requester,
    ) -> Result<()> {
        let Some(request) = machine.request() else { return Ok(()) };
        let name = request.name.clone();
        let events = self.csr_watcher.events();
        match CachedObject::of(client.get(&CSRS.cluster_object(&name)))? {
            CachedObject::Absent => {
                let message = format!("CSR {name} is gone from the hub without an answer");
                let rest = machine.gone(requester, Instant::now(), fastrand::f64());
                let message = format!("{message}; posting it again in {} s", rest.as_secs());
                self.agent.report(|status| status.count_end("CSRGone"));
                self.agent.record_event("CSRGone", true, &message);
                self.agent.report(|status| status.detail = Some(message));
            }
            csr => self.csr_watcher.answered(csr, events),
        }
        Ok(())
    }
}
