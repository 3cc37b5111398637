//! The parts of the running program: settings, clients, the session with a hub, and the state that threads share.

use std::{
    sync::{Arc, Mutex},
    time::{Instant, SystemTime},
};

use apiclient::{
    client::{Client, RequestMetrics, ServerClock, Timeouts},
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
use log::Level;
use serde_json::Value;
use sidecar::{
    client::{cluster_of_file, own_cluster},
    flags::Flags,
    renewal::RenewalStatus,
};

use crate::{
    Program,
    bootstrap::{self, BootstrapKubeconfig, SourceResult},
    capacity::{self, NodeResources},
    certificate::io::RequestStore,
    claim,
    clocks::Clocks,
    settings::Settings,
    state::{CertificateStatus, HubSession, SharedState},
};

/// The running program. Its lock is never held across I/O.
pub(crate) struct Agent {
    pub(crate) program: Program,
    pub(crate) settings: Settings,
    pub(crate) stop: Stop,
    /// The cluster that holds the Secrets.
    pub(crate) management: Client,
    /// The cluster that joins the hub; `None` if that is the management cluster.
    pub(crate) other_spoke: Option<Client>,
    pub(crate) credential: Store<Arc<Value>>,
    pub(crate) bootstraps: Vec<Store<SourceResult>>,
    pub(crate) claims: Vec<Store<String>>,
    pub(crate) nodes: Store<NodeResources>,
    pub(crate) started: SystemTime,
    /// Requests in sessions with a hub, and by all other clients for hubs.
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

    /// Returns the cluster on which add-ons' agents run, with their Leases and Secrets.
    pub(crate) fn cluster_of_addons(&self, hosted: bool) -> &Client {
        if hosted { &self.management } else { self.spoke() }
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&SharedState) -> T) -> T {
        read(&lock(&self.state))
    }

    /// Changes the shared state, and wakes all threads that wait for a change.
    pub(crate) fn update(&self, update: impl FnOnce(&mut SharedState)) {
        update(&mut lock(&self.state));
        self.stop.wake();
    }

    /// Changes the status on the endpoint, for which no thread waits.
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

    /// Waits for a session that has not ended; returns `None` at the end of the process.
    pub(crate) fn next_session(&self) -> Option<Arc<HubSession>> {
        let mut next = None;
        controller::run(&self.stop, || {
            next = self.session().filter(|session| !session.stop.raised());
            next.is_none().then(|| Instant::now() + Stop::SLICE)
        });
        // A session's `stop` is raised a moment after the process's.
        next.filter(|_| !self.stop.raised())
    }

    /// Returns this machine's clock and the clock of the hub in use: by the session, or else by the requester.
    pub(crate) fn clocks(&self) -> Clocks {
        self.clocks_by(|session, requester| session.or(requester))
    }

    /// Returns this machine's clock and the clock of the issuing hub: by the requester, or else by the session.
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

    /// Returns the result of source `index`; `None` until it was read.
    pub(crate) fn source(&self, index: usize) -> Option<SourceResult> {
        let (source, store) = (&self.settings.bootstraps[index], &self.bootstraps[index]);
        bootstrap::result(source, store, &self.settings.namespace)
    }

    /// Returns the URL of source `index`'s server, which identifies the hub.
    pub(crate) fn server(&self, index: usize) -> Option<String> {
        Some(self.source(index)?.ok()?.hub.url().to_owned())
    }

    /// Returns the selected hub of several: the index of its source, and its server. The selection ends when the source
    /// leads to another server; a source without a valid bootstrap kubeconfig does not end it.
    pub(crate) fn selected_hub(&self) -> Option<(usize, String)> {
        let (index, server) = self.read(|state| state.selected_hub.clone())?;
        self.server(index).is_none_or(|it| it == server).then_some((index, server))
    }

    /// Returns the bootstrap kubeconfig in use: the only one, or the selected hub's.
    pub(crate) fn bootstrap(&self) -> Option<Arc<BootstrapKubeconfig>> {
        self.source(self.source_in_use()?)?.ok()
    }

    fn source_in_use(&self) -> Option<usize> {
        match self.settings.hub_connection_timeout {
            Some(_) => Some(self.selected_hub()?.0),
            None => Some(0),
        }
    }

    /// Returns why no bootstrap kubeconfig is valid, or why no hub can be selected.
    pub(crate) fn bootstrap_error(&self) -> Option<String> {
        if let Some(error) = self.read(|state| state.selection_error.clone()) {
            return Some(format!("no hub can be selected: {error}"));
        }
        let error = self.source(self.source_in_use()?)?.err()?;
        Some(format!("no valid bootstrap kubeconfig: {error}"))
    }

    pub(crate) fn request_store(&self) -> RequestStore {
        let (namespace, name) = (self.settings.namespace.clone(), self.settings.pending_secret());
        RequestStore::new(self.management.clone(), namespace, name)
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

    /// Stores the answer about the credential's Secret, unless an event has arrived since `revision`.
    pub(crate) fn set_credential(&self, revision: u64, secret: Option<Value>) {
        self.credential.put(revision, &self.settings.hub_secret, secret.map(Arc::new));
        self.stop.wake();
    }

    /// Returns `Secret ns/name`, for sentences about the credential.
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

    /// Logs `message`, and writes it as an Event on the Secret; the failure of an Event is only logged.
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

type HubClock = Option<ServerClock>;

pub(crate) fn follow_credential(agent: &Agent) {
    let (selection, management) = (Selection::all(agent.credential()), &agent.management);
    let (stop, mut parse) = (&agent.stop, |secret: Value| Some(Arc::new(secret)));
    agent.credential.run(management, &selection, stop, &mut parse, &mut || stop.wake());
}
