//! The cluster's certificate: its Secrets, its CSR on the hub, and what people are told.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use apiclient::{
    client::Client,
    error::{Error, Result},
    log_object,
    resource::valid_name,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use log::Level;
use serde_json::Value;

use super::{
    csr::CertificateRequest,
    csrs::CsrClient,
    io::{Io, Notice},
    need::Requester,
    pacing::REST_REFUSED,
    store::{self, StoredRequest},
    validate::Validation,
};
use crate::{
    agent::Agent,
    bootstrap::BootstrapKubeconfig,
    clocks::Clocks,
    hub::Hub,
    identity::AgentNames,
    managedcluster::{self, MANAGED_CLUSTERS},
    state::Rotated,
};

/// As upstream, the ManagedCluster is checked every one to two hours while bootstrapping
/// (ocm `pkg/registration/spoke/registration/creating_controller.go:46`).
const INTRODUCE_INTERVAL: Duration = Duration::from_secs(3600);

/// What lasts from one step to the next.
pub(super) struct Connections {
    stored: StoredRequest,
    /// The client of the bootstrap identity.
    bootstrap: Option<Arc<CsrClient>>,
    introduce_at: Option<Instant>,
}

impl Connections {
    pub(super) fn new(stored: StoredRequest) -> Self {
        Self { stored, bootstrap: None, introduce_at: None }
    }

    /// The request that is stored.
    pub(super) fn request(&self, names: &AgentNames) -> Option<CertificateRequest> {
        self.stored.request(names)
    }

    /// Introduces the cluster again: the bootstrap kubeconfig may lead to another hub.
    pub(super) fn introduce_again(&mut self) {
        self.introduce_at = None;
    }

    /// Stops awaiting the CSR `name`, and closes the bootstrap identity's client.
    pub(super) fn close(&mut self, agent: &Agent, name: Option<&str>) {
        if let (Some(session), Some(name)) = (agent.session(), name) {
            session.csrs.forget(name);
        }
        if let Some(csrs) = self.bootstrap.take() {
            agent.update(|state| state.requester = None);
            // A used credential is not retried in the background again and again.
            csrs.close();
        }
    }

    fn csrs(
        &mut self,
        agent: &Agent,
        cluster: &str,
        requester: Option<Requester>,
        bootstrap: Option<&BootstrapKubeconfig>,
    ) -> Result<Arc<CsrClient>> {
        let missing = || Error::bad_config("no identity to use at the hub");
        if requester.ok_or_else(missing)? == Requester::Agent {
            self.close(agent, None);
            return agent.session().map(|session| session.csrs.clone()).ok_or_else(missing);
        }
        let config = &bootstrap.ok_or_else(missing)?.config;
        // Another config may lead to another hub: nothing observed with the last one counts.
        if let Some(csrs) = self.bootstrap.as_ref().filter(|it| it.client.config() == *config) {
            return Ok(csrs.clone());
        }
        self.close(agent, None);
        let name = "the hub (as the bootstrap identity)";
        let client = agent.requester_client(name, config.clone())?;
        let csrs = Arc::new(CsrClient::new(client, cluster, agent.stop.child(), &agent.stop));
        self.bootstrap = Some(csrs.clone());
        agent.update(|state| state.requester = Some(csrs.clone()));
        Ok(csrs)
    }
}

/// The view of one step.
pub(super) struct ClusterIo<'a> {
    pub(super) agent: &'a Agent,
    pub(super) names: &'a AgentNames,
    pub(super) connections: &'a mut Connections,
    pub(super) requester: Option<Requester>,
    pub(super) bootstrap: Option<&'a BootstrapKubeconfig>,
    /// The hub of the kubeconfig that is saved.
    pub(super) hub: Option<&'a Hub>,
    pub(super) validation: &'a Validation,
    /// The last failure is about a Secret.
    pub(super) failed_secret: bool,
}

impl Io for ClusterIo<'_> {
    fn new_request(&mut self) -> Result<CertificateRequest> {
        CertificateRequest::new(&self.names.csr_template())
    }

    fn store(
        &mut self,
        request: Option<&CertificateRequest>,
        previous: Option<&CertificateRequest>,
    ) -> Result<()> {
        self.failed_secret = true;
        match request {
            Some(request) => {
                self.check_secrets()?;
                let mut data = request.secret_data(self.names);
                // A restart goes on with this hub.
                if let Some((_, server)) = self.agent.selected_hub() {
                    let server = BASE64_STANDARD.encode(server);
                    data.insert(store::HUB_SERVER.into(), server.into());
                }
                self.connections.stored.replace(data)?;
            }
            None => {
                self.connections.stored.empty()?;
                // Its Secret may have changed meanwhile, with the key still in it.
                if previous.is_some() && self.connections.request(self.names).as_ref() == previous {
                    return Err(Error::Conflict("the stored request has changed".into()));
                }
            }
        }
        self.failed_secret = false;
        Ok(())
    }

    fn stored(&mut self) -> Result<Option<CertificateRequest>> {
        self.connections.stored.reload()?;
        Ok(self.connections.request(self.names))
    }

    fn pending(&mut self) -> Result<Vec<String>> {
        self.csrs()?.pending(&self.names.csr_template())
    }

    /// The bootstrap identity introduces the cluster first.
    fn csr(&mut self, name: &str) -> Result<Option<Value>> {
        let csrs = self.csrs()?;
        let is_due = self.connections.introduce_at.is_none_or(|at| Instant::now() >= at);
        if self.requester == Some(Requester::Bootstrap) && is_due {
            self.introduce(&csrs.client)?;
        }
        csrs.get(name)
    }

    /// A certificate that cannot be saved is lost: both Secrets must be writable.
    fn create_csr(&mut self, request: &CertificateRequest) -> Result<()> {
        self.check_secrets()?;
        let expiration = self.agent.settings.expiration;
        self.csrs()?.create(request, &self.names.csr_template(), expiration)
    }

    fn save(&mut self, issued: Option<(&[u8], &CertificateRequest)>) -> Result<()> {
        let (mut values, fallback) = store::other_values(self.names, self.hub, self.validation);
        if let Some((pem, request)) = issued {
            values.insert("tls.crt", pem.to_vec().into());
            values.insert("tls.key", request.key.as_bytes().to_vec().into());
        }
        let saved = store::save(self.agent, &values, &fallback);
        self.failed_secret = saved.is_err();
        saved
    }

    fn clocks(&self) -> Clocks {
        self.agent.requester_clocks()
    }

    fn notify(&mut self, notice: &Notice<'_>) {
        let (agent, secret) = (self.agent, self.agent.secret_name());
        let detail = |message: String| agent.report(|status| status.detail = Some(message));
        match notice {
            Notice::Halted { pending, is_new } => {
                let message = halted(pending);
                if *is_new {
                    agent.record_event("ClientCertificateCreationHalted", true, &message);
                }
                detail(message);
            }
            Notice::Created(name) => {
                agent.report(|status| status.posted += 1);
                // The hub approves the agent's own requests.
                let approve = match self.requester {
                    Some(Requester::Bootstrap) => format!(": kubectl certificate approve {name}"),
                    _ => String::new(),
                };
                let message = format!("CSR {name} was created on the hub{approve}");
                agent.record_event("CSRCreated", false, &message);
            }
            Notice::Pending { sentence, is_new, is_overdue } => {
                detail((*sentence).to_owned());
                if *is_new && *is_overdue {
                    agent.record_event("CSRPending", true, sentence);
                } else if *is_new {
                    log_object!(Level::Info, agent.credential(), event = "CSRPending"; "{sentence}");
                    agent.report(|status| status.pending = Some(SystemTime::now()));
                }
            }
            Notice::Gone { name, rest } => {
                let message = format!("CSR {name} is gone from the hub without an answer");
                let message = format!("{message}; posting it again in {} s", rest.as_secs());
                agent.report(|status| status.count_end("CSRGone"));
                agent.record_event("CSRGone", true, &message);
                detail(message);
            }
            Notice::Ended { name, sentence, failure, rest } => {
                self.connections.close(agent, Some(name));
                let message = format!("{sentence}; requesting another one in {} s", rest.as_secs());
                agent.report(|status| status.count_end(failure.reason()));
                agent.record_event(failure.reason(), true, &message);
                detail(message);
            }
            Notice::Saved(name) => {
                self.connections.close(agent, Some(name));
                agent.report(|status| {
                    status.count_end("Issued");
                    status.saved = Some(SystemTime::now());
                });
                let message = format!("the certificate of CSR {name} is in {secret}");
                agent.record_event("ClientCertificateCreated", false, &message);
            }
            Notice::Repaired => {
                let message = format!("repaired the kubeconfig and the names in {secret}");
                agent.record_event("SecretSave", false, &message);
            }
        }
    }
}

impl ClusterIo<'_> {
    fn csrs(&mut self) -> Result<Arc<CsrClient>> {
        let cluster = &self.names.cluster;
        self.connections.csrs(self.agent, cluster, self.requester, self.bootstrap)
    }

    fn introduce(&mut self, client: &Client) -> Result<()> {
        let first = self.connections.introduce_at.is_none();
        let interval = match managedcluster::introduce(client, self.agent, self.names) {
            Ok(is_new) => {
                if is_new {
                    let message = format!("ManagedCluster {} was created", self.names.cluster);
                    self.agent.record_event("ManagedClusterCreated", false, &message);
                }
                INTRODUCE_INTERVAL + INTRODUCE_INTERVAL.mul_f64(fastrand::f64())
            }
            // A CSR may be posted all the same.
            Err(error @ (Error::Unauthorized(_) | Error::Forbidden(_))) => {
                if first {
                    let target = MANAGED_CLUSTERS.cluster_object(&self.names.cluster);
                    log_object!(
                        Level::Warn, target, error:% = error;
                        "the ManagedCluster is not created"
                    );
                }
                REST_REFUSED
            }
            Err(error) => return Err(error),
        };
        self.connections.introduce_at = Some(Instant::now() + interval);
        Ok(())
    }

    /// Checks that both Secrets can be written.
    fn check_secrets(&mut self) -> Result<()> {
        let credential = self.agent.credential_secret();
        store::check_mutable(&self.agent.credential(), credential.as_deref())?;
        self.connections.stored.check_mutable()
    }
}

/// The sentence about too many pending CSRs, with the command that removes them.
fn halted(pending: &[String]) -> String {
    let halted = Rotated::Halted.message();
    // Names come from the hub, and people paste the command into a shell.
    let names: Vec<&str> =
        pending.iter().map(String::as_str).filter(|name| valid_name(name)).collect();
    match names[..] {
        [] => halted.to_owned(),
        _ => format!("{halted}: kubectl delete csr {}", names.join(" ")),
    }
}
