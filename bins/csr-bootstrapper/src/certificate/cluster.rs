//! The cluster's credential: its [`Io`], and the session that uses it.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use apiclient::{
    client::Client,
    error::{Error, Result},
    log_object,
};
use kubeconfig::{Hub, config::ClusterConfig};
use log::Level;
use serde_json::Value;

use super::{
    csr::CertificateRequest,
    csrs::CsrClient,
    io::{self, Io, SecretValues, has_changed, value},
    manager::CertificateManager,
    validate::{Need, UsableCredential, Validation},
};
use crate::{
    clocks::Clocks,
    identity::{AGENT_NAME, CLUSTER_NAME},
    managedcluster::{self, MANAGED_CLUSTERS},
    state::{HubSession, hub_client},
};

/// Key of the selected hub of several, next to the request.
pub(crate) const HUB_SERVER: &str = "hub-server";
/// The keys of the stored request.
const REQUEST_KEYS: [&str; 5] = ["tls.key", "csr-name", CLUSTER_NAME, AGENT_NAME, HUB_SERVER];
/// The interval of checks of the ManagedCluster while bootstrapping, up to doubled by jitter (an hour in ocm
/// `pkg/registration/spoke/registration/creating_controller.go:46`).
const INTRODUCE_INTERVAL: Duration = Duration::from_secs(300);

impl CertificateManager<'_> {
    /// Makes the session use the credential. An unusable credential ends the session only if the certificate in use
    /// has expired, too, by every clock, and there is another identity to continue with.
    pub(super) fn follow(&self, validation: &Validation) {
        let (agent, session) = (self.agent, self.agent.session());
        let usable = validation.as_ref().ok().and_then(|it| Some((self.config(it)?, &it.hub)));
        let Some((config, hub)) = usable else {
            let is_over = session.is_some_and(|session| session.is_expired(agent.clocks()));
            if is_over && self.bootstrap.is_some() {
                log_object!(
                    Level::Warn, agent.credential();
                    "the certificate for the hub has expired"
                );
                agent.set_session(None);
            }
            return;
        };
        // Observations of one hub are void for another, even the resourceVersions of its watches.
        let used = match session.filter(|session| session.hub == *hub) {
            Some(session) => session.client.swap(config).map(drop),
            None => self.open_session(config, hub),
        };
        if let Err(error) = used {
            log_object!(
                Level::Warn, agent.credential(), error:% = error;
                "keeping the current credentials"
            );
        }
    }

    fn open_session(&self, config: ClusterConfig, hub: &Hub) -> Result<()> {
        let (agent, names) = (self.agent, &self.names);
        let client = hub_client("the hub", config, &agent.session_requests)?;
        // The credential may be valid only by the hub's clock, which the requester knows.
        let requester = agent.read(|state| state.requester.clone());
        let clock = requester.and_then(|csrs| csrs.client.clock());
        let session = HubSession::new(client, (hub.clone(), clock), names.clone(), &agent.stop);
        // The old session ends first: its cluster must not appear in the new one.
        agent.set_session(None);
        agent.set_session(Some(Arc::new(session)));
        let message = format!("the hub is used as {} with {}", names.user(), agent.secret_name());
        agent.record_event("HubClientConfigReady", false, &message);
        Ok(())
    }

    /// Returns the connection to the hub with the credential: its own kubeconfig's, or else the bootstrap kubeconfig's.
    fn config(&self, usable: &UsableCredential) -> Option<ClusterConfig> {
        let other = || self.bootstrap.as_ref().map(|it| it.as_agent(&usable.identity));
        usable.config.clone().or_else(other)
    }

    /// Returns whether the bootstrap kubeconfig is for another hub than the credential, and that hub knows the agent:
    /// then only the kubeconfig must change. That hub is asked once, for the ManagedCluster.
    pub(super) fn is_known_after_move(&mut self, validation: &Validation) -> Result<bool> {
        let (Ok(usable @ UsableCredential { moved: Some(_), .. }), Some(bootstrap)) =
            (validation, &self.bootstrap)
        else {
            self.knows_agent = None;
            return Ok(false);
        };
        if let Some(known) = self.knows_agent {
            return Ok(known);
        }
        let config = bootstrap.as_agent(&usable.identity);
        let client =
            hub_client("the hub (at its new address)", config, &self.agent.other_requests)?;
        let known = match client.get(&MANAGED_CLUSTERS.cluster_object(&self.names.cluster)) {
            Ok(_) => true,
            Err(Error::Unauthorized(_) | Error::Forbidden(_) | Error::NotFound(_)) => {
                log::debug!("the hub at the new address does not know this agent");
                false
            }
            Err(error) => return Err(error),
        };
        self.knows_agent = Some(known);
        Ok(known)
    }

    /// Opens a client for the bootstrap identity while it requests a certificate, and closes the client afterwards.
    pub(super) fn connect_bootstrap(&self, need: &Need) -> Result<()> {
        let agent = self.agent;
        let is_needed = self.is_bootstrapping() && matches!(need, Need::Certificate(_));
        let wanted = self.bootstrap.as_ref().filter(|_| is_needed).map(|it| &it.config);
        let open = agent.read(|state| state.requester.clone());
        // Another config may lead to another hub, for which earlier observations are void.
        if open.as_ref().map(|csrs| csrs.client.config()).as_ref() == wanted {
            return Ok(());
        }
        if let Some(csrs) = open {
            agent.update(|state| state.requester = None);
            csrs.close();
        }
        let Some(config) = wanted else { return Ok(()) };
        let name = "the hub (as the bootstrap identity)";
        let client = hub_client(name, config.clone(), &agent.other_requests)?;
        let csrs = CsrClient::new(client, &self.names.cluster, &agent.stop);
        agent.update(|state| state.requester = Some(Arc::new(csrs)));
        Ok(())
    }

    fn is_bootstrapping(&self) -> bool {
        self.requester.as_ref().is_some_and(|requester| !requester.is_agent)
    }

    fn csrs(&self) -> Result<Arc<CsrClient>> {
        let csrs = self.requester.as_ref().and_then(|requester| match requester.is_agent {
            true => self.agent.session().map(|it| it.csrs.clone()),
            false => self.agent.read(|state| state.requester.clone()),
        });
        csrs.ok_or_else(|| Error::bad_config("no identity to use at the hub"))
    }

    fn introduce(&mut self, client: &Client) -> Result<()> {
        let is_new = match managedcluster::introduce(client, self.agent, &self.names) {
            // The hub may allow a CSR nevertheless.
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
        let mut values = SecretValues::from(REQUEST_KEYS.map(|key| (key.to_owned(), None)));
        if let Some(request) = request {
            let texts = request.stored_texts(&self.names);
            values.extend(texts.map(|(key, text)| (key.to_owned(), value(text))));
            // A restart continues with this hub.
            let hub = self.agent.selected_hub();
            values.extend(hub.map(|(_, server)| (HUB_SERVER.to_owned(), value(server))));
        }
        self.store.write(&values)
    }

    fn write_credential(&self, values: &SecretValues) -> Result<()> {
        let (agent, target) = (self.agent, self.agent.credential());
        let (revision, seen) = (agent.credential.revision(), agent.credential_secret());
        let saved = io::save(&agent.management, &target, seen.as_deref(), values);
        // The watch lags behind, or another writer was faster.
        if saved.as_ref().is_err_and(has_changed) {
            agent.read_credential()?;
        }
        let secret = saved.map_err(|error| io::with_remedy(&target, seen.is_some(), error))?;
        agent.set_credential(revision, Some(secret));
        Ok(())
    }

    /// Records an Event for each new reason why a Secret cannot be written.
    fn report_refusal(&mut self, written: Result<()>) -> Result<()> {
        match &written {
            Ok(()) => self.refusal = None,
            Err(error @ (Error::Immutable(_) | Error::Forbidden(_))) => {
                let message = error.message();
                if self.refusal.as_deref() != Some(message) {
                    self.agent.record_event("SecretSaveFailed", true, message);
                    self.refusal = Some(message.to_owned());
                }
            }
            Err(_) => {}
        }
        written
    }
}

impl Io for CertificateManager<'_> {
    fn new_request(&mut self, _: &str) -> Result<CertificateRequest> {
        CertificateRequest::new(&self.names.csr_template())
    }

    fn stored(&mut self) -> Result<Option<CertificateRequest>> {
        let data = self.store.read()?;
        let request = CertificateRequest::of_secret(data, &self.names);
        let hub = self.agent.selected_hub().map(|(_, server)| server);
        let stored = data.get(HUB_SERVER).map(|server| server.as_slice());
        // A restart must not go back to the hub that was selected at the time of the request.
        if request.is_some() && hub.is_some_and(|hub| stored != Some(hub.as_bytes())) {
            // A failure stops nothing else; a refusal has its Event.
            if let Err(error) = self.store(request.as_ref()) {
                log::debug!(error:% = error; "the selected hub is not stored");
            }
        }
        Ok(request)
    }

    fn store(&mut self, request: Option<&CertificateRequest>) -> Result<()> {
        let written = self.write_request(request);
        self.report_refusal(written)
    }

    fn pending(&mut self) -> Result<usize> {
        self.csrs()?.pending(&self.names.csr_template())
    }

    /// As the bootstrap identity, introduces the cluster first.
    fn csr(&mut self, name: &str) -> Result<Option<Value>> {
        let csrs = self.csrs()?;
        let is_due = self.introduce_at.is_none_or(|at| Instant::now() >= at);
        if self.is_bootstrapping() && is_due {
            self.introduce(&csrs.client)?;
        }
        csrs.get(name)
    }

    fn create_csr(&mut self, request: &CertificateRequest) -> Result<()> {
        let expiration = self.agent.settings.expiration;
        self.csrs()?.create(request, &self.names.csr_template(), expiration)
    }

    fn save(&mut self, issued: Option<(&[u8], &CertificateRequest)>) -> Result<()> {
        let mut values = io::values_of(issued);
        for (key, name) in [(CLUSTER_NAME, &self.names.cluster), (AGENT_NAME, &self.names.agent)] {
            values.insert(key.to_owned(), value(&**name));
        }
        if let Some(requester) = &self.requester {
            values.insert("kubeconfig".to_owned(), value(requester.hub.kubeconfig()));
        }
        let written = self.write_credential(&values);
        self.report_refusal(written)
    }

    fn clocks(&self) -> Clocks {
        self.agent.requester_clocks()
    }

    fn notify(&mut self, level: Level, reason: &'static str, message: String) {
        let is_warning = level == Level::Warn;
        let is_pending = reason == super::PENDING && !is_warning;
        if is_pending {
            log_object!(level, self.agent.credential(), event = reason; "{message}");
        } else {
            self.agent.record_event(reason, is_warning, &message);
        }
        self.agent.report(|status| {
            match reason {
                super::CREATED => status.posted += 1,
                super::PENDING => drop(status.pending.get_or_insert_with(SystemTime::now)),
                super::SAVED => {
                    status.count_end("Issued");
                    status.saved = Some(SystemTime::now());
                }
                super::HALTED | super::REPAIRED => {}
                ended => status.count_end(ended),
            }
            if is_warning || is_pending {
                status.detail = Some(message);
            }
        });
    }
}
