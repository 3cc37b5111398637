//! The parts of the running program: settings, clients, the session with a hub, and the state that threads share.

use std::{
    sync::{Arc, Mutex},
    time::{Instant, SystemTime},
};

use apiclient::{
    client::{Client, Reload, RequestMetrics, ServerClock, Timeouts},
    controller,
    error::{Result, optional},
    event::EventRecord,
    lock::lock,
    log_object,
    reflector::{Lookup, Store},
    resource::{SECRETS, Target},
    stop::Stop,
    watch::Selection,
};
use kubeconfig::{Hub, config::ClusterConfig};
use log::Level;
use serde_json::Value;
use sidecar::{
    client::{cluster_of_file, own_cluster},
    flags::Flags,
    renewal::RenewalStatus,
};

use crate::{
    Program,
    addon::managed_cluster_addon::{self, AddOn},
    bootstrap::SourceResult,
    capacity::{self, NodeResources},
    certificate::{csr::CsrClient, io::RequestStore},
    claim,
    clocks::Clocks,
    conditions::Condition,
    identity::AgentNames,
    managed_namespace,
    report::CertificateStatus,
    settings::Settings,
};

/// Memory limit for an object of the hub, in bytes: a ManagedCluster has a few KiB, and some copies of it are made.
const HUB_OBJECT: usize = 512 << 10;

#[derive(Default)]
pub(crate) struct SharedState {
    /// The selected one of several hubs: the index of its bootstrap kubeconfig, and its server.
    pub(crate) selected_hub: Option<(usize, String)>,
    /// Why the last selection found none.
    pub(crate) selection_error: Option<String>,
    /// Condition ClusterCertificateRotated, once there has been a rotation.
    pub(crate) rotated: Option<Condition>,
    /// The client that requests a certificate, unless it is the session's.
    pub(crate) requester: Option<Arc<CsrClient>>,
    /// The credential's Secret as the files have it.
    pub(crate) published: Option<Arc<Value>>,
    pub(crate) status: CertificateStatus,
    pub(crate) session: Option<Arc<HubSession>>,
}

/// The running program. Its lock is never held across I/O.
pub(crate) struct Agent {
    pub(crate) program: Program,
    pub(crate) settings: Settings,
    pub(crate) stop: Stop,
    /// The cluster that holds the Secrets.
    pub(crate) management: Client,
    /// The cluster that joins the hub, if that is another one.
    pub(crate) other_spoke: Option<Client>,
    pub(crate) credential: Store<Arc<Value>>,
    pub(crate) bootstraps: Vec<Store<SourceResult>>,
    pub(crate) claims: Vec<Store<String>>,
    pub(crate) nodes: Store<NodeResources>,
    pub(crate) started: SystemTime,
    /// Requests in sessions with a hub, and by other requesters.
    pub(crate) session_requests: RequestMetrics,
    pub(crate) other_requests: RequestMetrics,
    pub(crate) heartbeat: Mutex<RenewalStatus>,
    state: Mutex<SharedState>,
}

impl Agent {
    pub(crate) fn new(
        settings: &Settings,
        flags: &Flags,
        stop: &Stop,
        program: Program,
    ) -> Result<Self> {
        let management = own_cluster(flags, Timeouts::REQUEST)?;
        let spoke = settings.spoke_kubeconfig.clone();
        let spoke = spoke.map(|file| cluster_of_file("the spoke", file)).transpose()?;
        Ok(Self {
            program,
            settings: settings.clone(),
            stop: stop.clone(),
            management,
            other_spoke: spoke,
            credential: Store::new(1),
            bootstraps: settings.bootstraps.iter().map(|_| Store::new(1)).collect(),
            claims: settings.claim_kinds.iter().map(|_| claim::store()).collect(),
            nodes: capacity::store(),
            started: SystemTime::now(),
            session_requests: RequestMetrics::default(),
            other_requests: RequestMetrics::default(),
            heartbeat: Mutex::default(),
            state: Mutex::default(),
        })
    }

    pub(crate) fn spoke(&self) -> &Client {
        self.other_spoke.as_ref().unwrap_or(&self.management)
    }

    /// The cluster that add-ons' agents run on, with their Leases and Secrets.
    pub(crate) fn cluster_of_addons(&self, hosted: bool) -> &Client {
        if hosted { &self.management } else { self.spoke() }
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&SharedState) -> T) -> T {
        read(&lock(&self.state))
    }

    /// Changes the shared state and wakes whoever waits for a change.
    pub(crate) fn update(&self, update: impl FnOnce(&mut SharedState)) {
        update(&mut lock(&self.state));
        self.stop.wake();
    }

    /// Changes the status on the endpoint; no thread waits for that.
    pub(crate) fn report(&self, report: impl FnOnce(&mut CertificateStatus)) {
        report(&mut lock(&self.state).status);
    }

    pub(crate) fn heartbeat(&self) -> RenewalStatus {
        lock(&self.heartbeat).clone()
    }

    pub(crate) fn beat(&self) {
        self.report(|status| status.beat = Some(Instant::now()));
    }

    pub(crate) fn session(&self) -> Option<Arc<HubSession>> {
        self.read(|state| state.session.clone())
    }

    pub(crate) fn set_session(&self, session: Option<Arc<HubSession>>) {
        if let Some(ended) = self.session() {
            ended.stop.raise();
            ended.csrs.close();
        }
        self.update(|state| state.session = session);
    }

    /// Waits for a session that has not ended; `None` at the end of the process.
    pub(crate) fn next_session(&self) -> Option<Arc<HubSession>> {
        let mut next = None;
        controller::run(&self.stop, || {
            next = self.session().filter(|session| !session.stop.raised());
            next.is_none().then(|| Instant::now() + Stop::SLICE)
        });
        // Sessions end a moment after the process.
        next.filter(|_| !self.stop.raised())
    }

    /// This machine's clock, and that of the hub in use: the session's, or before there is one, the requester's.
    pub(crate) fn clocks(&self) -> Clocks {
        self.clocks_by(|session, requester| session.or(requester))
    }

    /// This machine's clock, and that of the hub which issues the certificate: the requester's, or else the session's.
    pub(crate) fn requester_clocks(&self) -> Clocks {
        self.clocks_by(|session, requester| requester.or(session))
    }

    fn clocks_by(&self, choose: fn(HubClock, HubClock) -> HubClock) -> Clocks {
        let hub = self.read(|state| {
            let of_session = |session: &Arc<HubSession>| session.client.clock().or(session.clock);
            let requester = state.requester.as_ref().and_then(|csrs| csrs.client.clock());
            choose(state.session.as_ref().and_then(of_session), requester)
        });
        Clocks::new(SystemTime::now(), Instant::now(), hub)
    }

    pub(crate) fn request_store(&self, name: String) -> RequestStore {
        RequestStore::new(self.management.clone(), self.settings.namespace.clone(), name)
    }

    pub(crate) fn credential(&self) -> Target<'_> {
        SECRETS.object(&self.settings.namespace, &self.settings.hub_secret)
    }

    pub(crate) fn credential_secret(&self) -> Option<Arc<Value>> {
        let secret = self.credential.get(&self.settings.hub_secret);
        if let Lookup::Object(secret) = secret { Some(secret) } else { None }
    }

    /// Reads the credential's Secret: the watch may lag behind.
    pub(crate) fn read_credential(&self) -> Result<()> {
        let revision = self.credential.revision();
        let secret = optional(self.management.get(&self.credential()))?;
        self.set_credential(revision, secret);
        Ok(())
    }

    /// Takes over the answer about the credential's Secret, unless an event has arrived since `revision`.
    pub(crate) fn set_credential(&self, revision: u64, secret: Option<Value>) {
        self.credential.put(revision, &self.settings.hub_secret, secret.map(Arc::new));
        self.stop.wake();
    }

    /// `Secret ns/name`, for sentences about the credential.
    pub(crate) fn secret_name(&self) -> String {
        format!("Secret {}/{}", self.settings.namespace, self.settings.hub_secret)
    }

    pub(crate) fn watch_errors(&self) -> Vec<String> {
        let (session, requester) =
            self.read(|state| (state.session.clone(), state.requester.clone()));
        let mut errors = vec![self.credential.last_error(), self.nodes.last_error()];
        if let Some(HubSession { managed_cluster, addons, csrs, namespaces, .. }) =
            session.as_deref()
        {
            errors.extend([managed_cluster.last_error(), addons.last_error()]);
            errors.extend([csrs.last_error(), namespaces.last_error()]);
        }
        errors.extend(requester.map(|csrs| csrs.last_error()));
        let claims = self.claims.iter().map(Store::last_error);
        let bootstraps = self.bootstraps.iter().map(Store::last_error);
        errors.into_iter().chain(claims).chain(bootstraps).flatten().collect()
    }

    /// Logs `message` and writes it as an Event on the Secret; a failed Event stops nothing.
    pub(crate) fn record_event(&self, reason: &'static str, warning: bool, message: &str) {
        let (level, target) = (if warning { Level::Warn } else { Level::Info }, self.credential());
        log_object!(level, target, event = reason; "{message}");
        let (controller, note) = ("csr-bootstrapper", message.to_owned());
        let event = EventRecord { controller, reason, note, warning };
        let secret = self.credential_secret();
        let uid = secret.as_ref().and_then(|secret| secret["metadata"]["uid"].as_str());
        if let Err(error) = event.write(&self.management, &target, uid) {
            log_object!(Level::Debug, target, event = reason, error:% = error; "the Event is not written");
        }
    }
}

/// A span of time in which one valid credential follows another.
pub(crate) struct HubSession {
    /// Client for the hub as the agent's user; its credentials are swapped at each rotation.
    pub(crate) client: Client,
    pub(crate) hub: Hub,
    /// The hub's clock by the answers to the requester before, until the client has one.
    pub(crate) clock: Option<ServerClock>,
    pub(crate) names: AgentNames,
    pub(crate) started: Instant,
    /// Raised when no credential is valid any more, or at the end.
    pub(crate) stop: Stop,
    pub(crate) managed_cluster: Store<Arc<Value>>,
    /// The spoke's namespaces with the hub's label.
    pub(crate) namespaces: Store<()>,
    pub(crate) addons: Store<Arc<AddOn>>,
    pub(crate) csrs: Arc<CsrClient>,
}

impl HubSession {
    /// Wakes `process` when a CSR changes, and ends with it.
    pub(crate) fn new(
        client: Client,
        (hub, clock): (Hub, Option<ServerClock>),
        names: AgentNames,
        process: &Stop,
    ) -> Self {
        let csrs = CsrClient::new(client.clone(), &names.cluster, process);
        Self {
            client,
            hub,
            clock,
            names,
            started: Instant::now(),
            stop: process.child(),
            managed_cluster: Store::new(1),
            namespaces: managed_namespace::store(),
            addons: managed_cluster_addon::store(),
            csrs: Arc::new(csrs),
        }
    }

    pub(crate) fn is_expired(&self, clocks: Clocks) -> bool {
        self.client.certificate_expiry().is_none_or(|end| clocks.are_past(end))
    }

    pub(crate) fn managed_cluster(&self) -> Option<Arc<Value>> {
        let cluster = self.managed_cluster.get(&self.names.cluster);
        if let Lookup::Object(cluster) = cluster { Some(cluster) } else { None }
    }
}

type HubClock = Option<ServerClock>;

/// A client for a hub, within the limit of memory for its objects. `name` is the hub's in messages.
pub(crate) fn hub_client(
    name: &str,
    config: ClusterConfig,
    requests: &RequestMetrics,
) -> Result<Client> {
    let (timeouts, requests) = (Timeouts::default(), requests.clone());
    let client = Client::counting(name, config, Reload::Never, timeouts, requests)?;
    Ok(client.limited_to(HUB_OBJECT))
}

pub(crate) fn follow_credential(agent: &Agent) {
    let (selection, management) = (Selection::all(agent.credential()), &agent.management);
    let (stop, mut parse) = (&agent.stop, |secret: Value| Some(Arc::new(secret)));
    agent.credential.run(management, &selection, stop, &mut parse, &mut || stop.wake());
}
