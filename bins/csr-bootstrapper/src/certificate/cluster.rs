//! The cluster's side of [`Io`]: its Secrets, its CSR on the hub, and what people are told.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use apiclient::{
    client::Client,
    error::{Error, Result},
    log_object,
};
use kubeconfig::secret::Data;
use log::Level;
use serde_json::Value;

use super::{
    csr::CertificateRequest,
    csrs::CsrClient,
    io::{self, Io, Requester},
    manager::CertificateManager,
    store::{self, SecretValues, has_changed},
    validate::{self, Validation},
};
use crate::{
    clocks::Clocks,
    identity::{AGENT_NAME, CLUSTER_NAME},
    managedcluster::{self, MANAGED_CLUSTERS},
};

/// Key of the selected one of several hubs, next to the request.
pub(crate) const HUB_SERVER: &str = "hub-server";
/// Between two checks of the ManagedCluster while bootstrapping, up to twice as long (ocm
/// `pkg/registration/spoke/registration/creating_controller.go:46` takes an hour).
const INTRODUCE_INTERVAL: Duration = Duration::from_secs(300);

impl CertificateManager<'_> {
    /// The content of the credential's Secret, and its validation.
    pub(super) fn validated(&self) -> (Data, Validation) {
        let hub = self.bootstrap.as_ref().map(|bootstrap| &bootstrap.hub);
        let secret = self.agent.credential_secret();
        validate::of_secret(secret.as_deref(), |data| {
            validate::validate(data, hub, &self.names, self.agent.clocks())
        })
    }

    /// Stops awaiting the CSR `name`, and closes the bootstrap identity's client: a used credential is not retried in the
    /// background again and again.
    pub(super) fn close(&self, name: Option<&str>) {
        if let (Some(session), Some(name)) = (self.agent.session(), name) {
            session.csrs.forget(name);
        }
        if let Some(csrs) = self.bootstrap_csrs() {
            self.agent.update(|state| state.requester = None);
            csrs.close();
        }
    }

    /// The bootstrap identity's client, while that identity is the requester.
    fn bootstrap_csrs(&self) -> Option<Arc<CsrClient>> {
        self.agent.read(|state| state.requester.clone())
    }

    fn csrs(&self) -> Result<Arc<CsrClient>> {
        let agent = self.agent;
        let missing = || Error::bad_config("no identity to use at the hub");
        if self.requester.as_ref().ok_or_else(missing)?.0 == Requester::Agent {
            self.close(None);
            return agent.session().map(|session| session.csrs.clone()).ok_or_else(missing);
        }
        let config = &self.bootstrap.clone().ok_or_else(missing)?.config;
        // Another config may lead to another hub: nothing observed with the last one counts.
        if let Some(csrs) = self.bootstrap_csrs().filter(|it| it.client.config() == *config) {
            return Ok(csrs);
        }
        self.close(None);
        let name = "the hub (as the bootstrap identity)";
        let client = agent.requester_client(name, config.clone())?;
        let (cluster, stop) = (&self.names.cluster, agent.stop.child());
        let csrs = Arc::new(CsrClient::new(client, cluster, stop, &agent.stop));
        agent.update(|state| state.requester = Some(csrs.clone()));
        Ok(csrs)
    }

    fn introduce(&mut self, client: &Client) -> Result<()> {
        let is_new = match managedcluster::introduce(client, self.agent, &self.names) {
            // A CSR may be posted all the same.
            Err(error @ (Error::Unauthorized(_) | Error::Forbidden(_))) => {
                let level = if self.introduce_at.is_none() { Level::Warn } else { Level::Debug };
                let target = MANAGED_CLUSTERS.cluster_object(&self.names.cluster);
                log_object!(level, target, error:% = error; "the ManagedCluster is not created");
                false
            }
            introduced => introduced?,
        };
        if is_new {
            let message = format!("ManagedCluster {} was created", self.names.cluster);
            self.agent.record_event("ManagedClusterCreated", false, &message);
        }
        let interval = INTRODUCE_INTERVAL + INTRODUCE_INTERVAL.mul_f64(fastrand::f64());
        self.introduce_at = Some(Instant::now() + interval);
        Ok(())
    }

    fn write_request(&mut self, request: Option<&CertificateRequest>) -> Result<()> {
        let mut values: Vec<_> = self.store.data().keys().map(|key| (key.clone(), None)).collect();
        if let Some(request) = request {
            let mut set = |key: &str, text: &str| {
                values.push((key.to_owned(), Some(text.as_bytes().to_vec().into())));
            };
            for (key, text) in request.stored_texts(&self.names) {
                set(key, text);
            }
            // A restart goes on with this hub.
            if let Some((_, server)) = self.agent.selected_hub() {
                set(HUB_SERVER, &server);
            }
        }
        self.store.write(values)
    }

    fn write_credential(&self, values: &SecretValues) -> Result<()> {
        let (agent, target) = (self.agent, self.agent.credential());
        let (revision, seen) = (agent.credential.revision(), agent.credential_secret());
        let values = values.iter().map(|(key, value)| (*key, value));
        match store::save(&agent.management, &target, seen.as_deref(), values, &[]) {
            Ok(secret) => {
                agent.set_credential(revision, Some(secret));
                Ok(())
            }
            Err(error) => {
                // The watch lags behind, or another writer was faster.
                if has_changed(&error) {
                    agent.set_credential(revision, store::read(&agent.management, &target)?);
                }
                Err(store::with_remedy(&target, seen.is_some(), error))
            }
        }
    }
}

impl Io for CertificateManager<'_> {
    fn new_request(&mut self) -> Result<CertificateRequest> {
        CertificateRequest::new(&self.names.csr_template())
    }

    fn stored(&mut self) -> Result<Option<CertificateRequest>> {
        self.store.refresh()?;
        Ok(CertificateRequest::of_secret(self.store.data(), &self.names))
    }

    fn store(&mut self, request: Option<&CertificateRequest>) -> Result<()> {
        let written = self.write_request(request);
        self.failed_secret = written.is_err();
        written
    }

    fn pending(&mut self) -> Result<usize> {
        self.csrs()?.pending(&self.names.csr_template())
    }

    /// The bootstrap identity introduces the cluster first.
    fn csr(&mut self, name: &str) -> Result<Option<Value>> {
        let csrs = self.csrs()?;
        let is_due = self.introduce_at.is_none_or(|at| Instant::now() >= at);
        if matches!(self.requester, Some((Requester::Bootstrap, _))) && is_due {
            self.introduce(&csrs.client)?;
        }
        csrs.get(name)
    }

    fn create_csr(&mut self, request: &CertificateRequest) -> Result<()> {
        let expiration = self.agent.settings.expiration;
        self.csrs()?.create(request, &self.names.csr_template(), expiration)
    }

    fn forget(&mut self, name: &str) {
        self.close(Some(name));
    }

    fn save(&mut self, issued: Option<(&[u8], &CertificateRequest)>) -> Result<()> {
        let mut values = store::values_of(issued);
        for (key, name) in [(CLUSTER_NAME, &self.names.cluster), (AGENT_NAME, &self.names.agent)] {
            values.insert(key, name.clone().into_bytes().into());
        }
        if let (Some((_, hub)), false) = (&self.requester, self.is_good) {
            values.insert("kubeconfig", hub.kubeconfig().into_bytes().into());
        }
        let written = self.write_credential(&values);
        self.failed_secret = written.is_err();
        written
    }

    fn clocks(&self) -> Clocks {
        self.agent.requester_clocks()
    }

    fn notify(&mut self, level: Level, reason: &'static str, message: String) {
        let is_warning = level == Level::Warn;
        let is_pending = reason == io::PENDING && !is_warning;
        if is_pending {
            log_object!(level, self.agent.credential(), event = reason; "{message}");
        } else {
            self.agent.record_event(reason, is_warning, &message);
        }
        self.agent.report(|status| {
            match reason {
                io::CREATED => status.posted += 1,
                io::PENDING => drop(status.pending.get_or_insert_with(SystemTime::now)),
                io::SAVED => {
                    status.count_end("Issued");
                    status.saved = Some(SystemTime::now());
                }
                io::HALTED | io::REPAIRED => {}
                ended => status.count_end(ended),
            }
            if is_warning || is_pending {
                status.detail = Some(message);
            }
        });
    }
}
