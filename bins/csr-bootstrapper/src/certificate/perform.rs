//! What the steps of a registration do to both clusters.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant, SystemTime},
};

use shared::{
    client::Client,
    error::{Error, Result},
    json::Document,
    resource::{Target, valid_name},
    secret,
    watch::{self, Selection},
};

use super::{
    csr::{CLUSTER_LABEL, CSRS, CertificateRequest},
    csr_status, deadline,
    machine::{CertificateAction, CsrFailure},
    need::{HubMove, Need, Requester},
    observe::ObservedCredential,
    registrar::CertificateManager,
    store::{self, SecretValues},
    validate::Validation,
};
use crate::{
    cached::CachedObject,
    identity::{AGENT_NAME, AgentNames, CLUSTER_NAME},
    managedcluster,
    state::Rotated,
};

/// A hub with too many requests is looked at again after this.
const HALTED: Duration = Duration::from_secs(60);
/// Requests in a page of their list, as in client-go (`tools/pager/pager.go`, defaultPageSize): a cluster and
/// its add-ons may have thousands, answered and not yet swept away.
const PAGE: u32 = 500;

impl CertificateManager<'_> {
    /// Takes `step`.
    pub(crate) fn take(
        &mut self,
        step: &CertificateAction,
        situation: &ObservedCredential,
    ) -> Result<()> {
        if self.errors.failures() > 0 {
            // What comes now says more than what went wrong before.
            self.agent.report(|status| status.detail = None);
        }
        match step {
            CertificateAction::Wait(_) => Ok(()),
            CertificateAction::CountPending
            | CertificateAction::CreateManagedCluster
            | CertificateAction::GetCsr
            | CertificateAction::CreateCsr
            | CertificateAction::ConfirmGone => self.ask(step, situation),
            CertificateAction::StoreRequest => self.store(),
            CertificateAction::SaveCertificate(pem) => self.save(pem, situation),
            CertificateAction::RepairSecret => self.repair(situation),
            CertificateAction::DeleteRequest => self.forget(),
            CertificateAction::AbandonCsr(end) => {
                self.end(end, situation.requester);
                Ok(())
            }
        }
    }

    /// Takes a step on the hub.
    fn ask(&mut self, step: &CertificateAction, situation: &ObservedCredential) -> Result<()> {
        let Some(requester) = situation.requester else { return Ok(()) };
        let client = self.asking.client(self.agent, requester, situation.access(requester))?;
        let result = match step {
            CertificateAction::CountPending => self.count(&client, requester),
            CertificateAction::CreateManagedCluster => self.introduce(&client),
            CertificateAction::CreateCsr => self.post(&client, requester),
            CertificateAction::ConfirmGone => self.gone(&client, requester),
            _ => self.look_up(&client),
        };
        if let (
            Requester::AgentAtNewHub,
            Err(error @ (Error::Unauthorized(_) | Error::Forbidden(_))),
        ) = (requester, &result)
        {
            log::debug!("the hub at the new address does not know this agent: {error}");
        }
        self.moving.answered(requester, &result, Instant::now());
        result
    }

    fn count(&mut self, client: &Client, requester: Requester) -> Result<()> {
        let pending = match self.pending(client) {
            // Who may not look may still ask, unless it is the new hub that does not know the agent.
            Err(error @ Error::Forbidden(_)) if requester != Requester::AgentAtNewHub => {
                log::info!("{error}");
                Vec::new()
            }
            pending => pending?,
        };
        if pending.len() < csr_status::MOST_PENDING {
            self.registration.counted();
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
        self.set_rotated(Rotated::Halted);
        self.registration.halted(requester, Instant::now(), HALTED);
        self.agent.report(|status| status.detail = Some(message));
        Ok(())
    }

    /// The names of the requests of this agent that wait on the hub, as many as matter.
    fn pending(&self, client: &Client) -> Result<Vec<String>> {
        let labels = format!("{CLUSTER_LABEL}={}", self.names.cluster);
        let target = Target { resource: &CSRS, namespace: None, name: None, subresource: None };
        let selection = Selection { target, labels: &labels, metadata_only: false, page: PAGE };
        let mut pending = Vec::new();
        watch::list(client, &selection, &self.agent.stop, &mut |csr| {
            if let Document::Whole(object) = &csr
                && csr_status::is_own_pending(object, &self.names)
            {
                pending.push(csr.name().to_owned());
            }
            match pending.len() < csr_status::MOST_PENDING {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(pending)
    }

    fn store(&mut self) -> Result<()> {
        let request = CertificateRequest::new(&self.names)?;
        let stored = store::store(self.agent, &request, &self.names, self.stored.as_ref());
        match stored {
            Ok(secret) => {
                self.stored = Some(secret);
                self.registration.stored(Some(request));
                Ok(())
            }
            // Somebody else wrote it: what is there counts.
            Err(Error::AlreadyExists(_) | Error::Conflict(_) | Error::NotFound(_)) => {
                self.stored = store::pending(self.agent)?;
                let data = self.stored.as_ref().map(secret::data).transpose()?;
                let request =
                    data.and_then(|data| CertificateRequest::of_secret(&data, &self.names));
                self.registration.stored(request);
                Ok(())
            }
            // One that is immutable makes room for another.
            Err(Error::Invalid(why)) if self.stored.is_some() => {
                self.forget()?;
                Err(Error::Invalid(why))
            }
            Err(error) => Err(error),
        }
    }

    fn introduce(&mut self, client: &Client) -> Result<()> {
        match managedcluster::introduce(client, self.agent, &self.names) {
            Ok(true) => {
                let message = format!("ManagedCluster {} was created", self.names.cluster);
                self.agent.record_event("ManagedClusterCreated", false, &message);
            }
            Ok(false) => {}
            // The request can still be asked.
            Err(error @ (Error::Unauthorized(_) | Error::Forbidden(_))) => {
                if self.registration.not_introduced(Instant::now()) {
                    log::warn!("{error}");
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        self.registration.introduced(Instant::now(), fastrand::f64());
        Ok(())
    }

    fn post(&mut self, client: &Client, requester: Requester) -> Result<()> {
        let Some(request) = &self.registration.request else { return Ok(()) };
        let name = request.name.clone();
        let object = request.object(&self.names.cluster, self.agent.settings.expiration);
        let target = CSRS.cluster_object(&name);
        let sightings = self.asking.sightings();
        let csr = match client.create(&target, &object) {
            // The watch lags behind, or the answer to an earlier try was lost.
            Err(Error::AlreadyExists(_)) => client.get(&target)?,
            created => {
                let csr = created?;
                self.registration.uid = csr["metadata"]["uid"].as_str().map(str::to_owned);
                self.agent.report(|status| status.posted += 1);
                // The agent's own requests are approved by the hub.
                let approve = match requester {
                    Requester::Bootstrap => format!(": kubectl certificate approve {name}"),
                    _ => String::new(),
                };
                let message = format!("CSR {name} was created on the hub{approve}");
                self.agent.record_event("CSRCreated", false, &message);
                csr
            }
        };
        self.asking.saw(CachedObject::Object(csr), sightings);
        Ok(())
    }

    /// Reads the CSR, where the watch does not show it.
    fn look_up(&mut self, client: &Client) -> Result<()> {
        let Some(request) = &self.registration.request else { return Ok(()) };
        let sightings = self.asking.sightings();
        let seen = CachedObject::of(client.get(&CSRS.cluster_object(&request.name)))?;
        self.asking.saw(seen, sightings);
        Ok(())
    }

    /// Makes sure that the CSR is gone: the watch may lag behind.
    fn gone(&mut self, client: &Client, requester: Requester) -> Result<()> {
        let Some(request) = &self.registration.request else { return Ok(()) };
        let name = &request.name;
        let sightings = self.asking.sightings();
        match CachedObject::of(client.get(&CSRS.cluster_object(name)))? {
            CachedObject::Absent => {
                let message = format!("CSR {name} is gone from the hub without an answer");
                let rest = self.registration.gone(requester, Instant::now(), fastrand::f64());
                let message = format!("{message}; it is posted again in {} s", rest.as_secs());
                self.agent.report(|status| status.count_end("CSRGone"));
                self.agent.record_event("CSRGone", true, &message);
                self.agent.report(|status| status.detail = Some(message));
            }
            csr => self.asking.saw(csr, sightings),
        }
        Ok(())
    }

    fn save(&mut self, pem: &[u8], situation: &ObservedCredential) -> Result<()> {
        let Some(request) = &self.registration.request else { return Ok(()) };
        let (mut values, fallback) = self.beside(situation);
        values.insert("tls.crt", pem.to_vec().into());
        values.insert("tls.key", request.key.as_bytes().to_vec().into());
        let name = request.name.clone();
        store::save(self.agent, &values, &fallback)?;
        self.registration.succeeded(self.lasted(situation), Instant::now());
        let used = deadline::least_use(pem, &self.agent.requester_clocks());
        self.obtained = Some((pem.to_vec(), Instant::now() + used));
        self.moving = HubMove::default();
        self.agent.report(|status| status.count_end("Issued"));
        self.agent.report(|status| status.saved = Some(SystemTime::now()));
        self.asking.finish(self.agent);
        self.set_rotated(Rotated::Done(deadline::sentence(pem)));
        let message = format!("the certificate of CSR {name} is in {}", self.agent.secret_name());
        self.agent.record_event("ClientCertificateCreated", false, &message);
        Ok(())
    }

    /// Whether the certificate in the Secret is the one that was put there last, and was used until it was
    /// due: an old one that somebody puts back is due too.
    fn lasted(&self, situation: &ObservedCredential) -> bool {
        let current = situation.validation.usable().map(|usable| &usable.identity.certificate);
        let last = self.obtained.as_ref().map(|(pem, _)| pem);
        let due = matches!(&situation.need, Need::Certificate(why) if why.regular);
        due && last.is_none_or(|last| Some(last) == current)
    }

    fn repair(&mut self, situation: &ObservedCredential) -> Result<()> {
        let (values, fallback) = self.beside(situation);
        store::save(self.agent, &values, &fallback)?;
        self.registration.repaired(Instant::now());
        let what = self.agent.secret_name();
        let message = format!("what is beside the certificate in {what} was put right");
        self.agent.record_event("SecretSave", false, &message);
        Ok(())
    }

    /// What is to be written beside certificate and key, and what only where it is missing by then. A
    /// kubeconfig that leads to the right hub stays as it is.
    fn beside(&self, situation: &ObservedCredential) -> (SecretValues, SecretValues) {
        let AgentNames { cluster, agent } = &self.names;
        let names = SecretValues::from([
            (CLUSTER_NAME, cluster.clone().into_bytes().into()),
            (AGENT_NAME, agent.clone().into_bytes().into()),
        ]);
        let kubeconfig = match self.asked_hub(situation) {
            Some(hub) => SecretValues::from([("kubeconfig", hub.kubeconfig().into_bytes().into())]),
            None => SecretValues::new(),
        };
        match &situation.validation {
            Validation::Usable(usable) if !usable.stale => (names, kubeconfig),
            _ => (names.into_iter().chain(kubeconfig).collect(), SecretValues::new()),
        }
    }

    fn forget(&mut self) -> Result<()> {
        if let Some(stored) = &self.stored {
            store::forget(self.agent, stored)?;
        }
        self.stored = None;
        self.registration.stored(None);
        Ok(())
    }

    fn end(&mut self, end: &CsrFailure, requester: Option<Requester>) {
        let name = self.registration.request.as_ref().map_or("", |request| &request.name);
        let sentence = format!("CSR {name} {}", end.sentence());
        let rest = self.registration.ended(end, requester, Instant::now(), fastrand::f64());
        self.asking.finish(self.agent);
        let failed = format!("Failed to rotated client certificate {sentence}");
        self.set_rotated(Rotated::Failed(failed));
        let message = format!("{sentence}; another one is asked for in {} s", rest.as_secs());
        self.agent.report(|status| status.count_end(end.reason()));
        self.agent.record_event(end.reason(), true, &message);
        self.agent.report(|status| status.detail = Some(message));
    }

    fn set_rotated(&self, rotated: Rotated) {
        self.agent.update(|state| state.rotated = Some(rotated));
    }

    /// Takes note of how `step` went.
    pub(crate) fn conclude(
        &mut self,
        step: &CertificateAction,
        requester: Option<Requester>,
        result: Result<()>,
    ) {
        let Err(error) = result else {
            let failures = self.errors.succeeded();
            if failures > 0 {
                log::info!("the credential is looked after again after {failures} failures");
            }
            return;
        };
        let now = Instant::now();
        let retry = self.errors.failed(&error, now, fastrand::f64());
        // The bootstrap identity does not wait longer than the new hub has time to know the agent.
        let wait = self.moving.patience(now).map_or(retry.wait, |left| retry.wait.min(left));
        self.registration.failed(now, wait, requester.filter(|_| step.is_on_the_hub()));
        self.agent.report(|status| status.detail = Some(error.to_string()));
        if retry.tell {
            log::warn!("{error}");
            if matches!(step, CertificateAction::CountPending | CertificateAction::CreateCsr) {
                self.set_rotated(Rotated::Failed(format!("Failed to create CSR {error}")));
            }
        } else {
            log::debug!("{error}; again in {wait:?}");
        }
    }
}
