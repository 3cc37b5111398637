//! What all threads share: settings, clients, and what is known of both clusters.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant, SystemTime},
};

use serde_json::{Value, json};
use shared::{
    client::{self, Client, Reload, Timeouts},
    error::Result,
    event::CoreEvent,
    flags::Flags,
    kubeconfig::{self, Reach},
    lock::lock,
    stop::Stop,
    watch::LastError,
};

use crate::{
    bootstrap::BootstrapKubeconfig, cached::CachedObject, clocks::Clocks, identity::AgentNames,
    progress::CertificateStatus, settings::Settings,
};

/// A request to either cluster.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(10);
/// The longest sleep in one piece: a machine that slept itself is noticed this late.
pub(crate) const SLICE: Duration = Duration::from_secs(15);
/// What an object of the hub may cost in memory, in bytes: a ManagedCluster or a CSR has a few KiB, and some
/// copies of each are made.
pub(crate) const HUB_OBJECT: usize = 512 << 10;

/// The parts of the running program. A lock is never held across I/O.
pub(crate) struct Agent {
    pub(crate) settings: Settings,
    pub(crate) stop: Stop,
    /// The cluster of the Secrets.
    pub(crate) management: Client,
    /// The cluster that joins the hub, where that is another one.
    spoke: Option<Client>,
    /// Why what is followed may have changed unseen.
    pub(crate) troubles: LastErrors,
    pub(crate) started: SystemTime,
    /// To the hub, by all clients one after the other.
    pub(crate) requests: HubRequests,
    credential: Mutex<CachedObject>,
    /// The one that can be used now, and how often that changed.
    bootstrap: Mutex<(Option<BootstrapKubeconfig>, u64)>,
    session: Mutex<Option<Arc<HubSession>>>,
    names: Mutex<Option<AgentNames>>,
    /// The ManagedCluster as the hub showed it last.
    managed_cluster: Mutex<Option<Value>>,
    rotated: Mutex<Option<Rotated>>,
    /// Whoever asks for a certificate, if not the session's client.
    asking: Mutex<Option<Client>>,
    progress: Mutex<CertificateStatus>,
}

/// The time in which there is one usable credential after another.
pub(crate) struct HubSession {
    /// The hub as the agent's own user; its credentials are swapped at each rotation.
    pub(crate) client: Client,
    /// Raised when there is no usable credential any more, or at the end.
    pub(crate) stop: Stop,
}

/// What was asked of the hub in sessions, and by who asks for a certificate beside them.
#[derive(Default)]
pub(crate) struct HubRequests {
    pub(crate) session: client::RequestMetrics,
    pub(crate) asking: client::RequestMetrics,
}

/// Why what is followed may have changed unseen, and why there is no bootstrap kubeconfig.
#[derive(Debug, Default)]
pub(crate) struct LastErrors {
    pub(crate) credential: LastError,
    pub(crate) bootstrap: LastError,
    pub(crate) cluster: LastError,
    pub(crate) csr: Arc<LastError>,
    pub(crate) no_bootstrap: Mutex<Option<String>>,
}

impl LastErrors {
    /// A line each.
    pub(crate) fn remarks(&self) -> String {
        let watches = [&self.credential, &self.bootstrap, &self.cluster, &self.csr];
        let watches = watches.into_iter().filter_map(LastError::get);
        watches.chain(lock(&self.no_bootstrap).clone()).map(|remark| remark + "\n").collect()
    }
}

/// What condition ClusterCertificateRotated is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rotated {
    pub(crate) good: bool,
    pub(crate) message: String,
}

impl Agent {
    /// Puts the parts together; nothing runs yet.
    ///
    /// # Errors
    /// `BadConfig` when a kubeconfig of the own side cannot be used.
    pub(crate) fn new(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<Self> {
        let management = Client::of_own_cluster(flags, REQUEST_TIME)?;
        let spoke = match &settings.spoke_kubeconfig {
            None => None,
            Some(file) => {
                let (file, reach) = (file.clone(), Reach::of(flags));
                let load = move || kubeconfig::from_file(&file, reach);
                let (access, reload) = (load()?, Reload::FromFiles(Box::new(load)));
                let timing = Timeouts::with_request(REQUEST_TIME);
                Some(Client::new("the spoke", access, reload, timing)?)
            }
        };
        Ok(Self {
            settings: settings.clone(),
            stop: stop.clone(),
            management,
            spoke,
            troubles: LastErrors::default(),
            started: SystemTime::now(),
            requests: HubRequests::default(),
            credential: Mutex::default(),
            bootstrap: Mutex::default(),
            session: Mutex::default(),
            names: Mutex::default(),
            managed_cluster: Mutex::default(),
            rotated: Mutex::default(),
            asking: Mutex::default(),
            progress: Mutex::default(),
        })
    }

    /// The cluster that joins the hub.
    pub(crate) fn spoke(&self) -> &Client {
        self.spoke.as_ref().unwrap_or(&self.management)
    }

    /// The same, where it is not the one that this runs on.
    pub(crate) fn other_spoke(&self) -> Option<&Client> {
        self.spoke.as_ref()
    }

    /// Who this agent is, once that is known.
    pub(crate) fn names(&self) -> Option<AgentNames> {
        lock(&self.names).clone()
    }

    pub(crate) fn set_names(&self, names: AgentNames) {
        *lock(&self.names) = Some(names);
        self.stop.wake();
    }

    /// The Secret with the hub's credential.
    pub(crate) fn credential(&self) -> CachedObject {
        lock(&self.credential).clone()
    }

    pub(crate) fn set_credential(&self, secret: CachedObject) {
        *lock(&self.credential) = secret;
        self.stop.wake();
    }

    /// The bootstrap kubeconfig, if there is one that can be used, and how often that changed.
    pub(crate) fn bootstrap(&self) -> (Option<BootstrapKubeconfig>, u64) {
        lock(&self.bootstrap).clone()
    }

    pub(crate) fn set_bootstrap(&self, bootstrap: Option<BootstrapKubeconfig>) {
        let mut known = lock(&self.bootstrap);
        if known.0 != bootstrap {
            *known = (bootstrap, known.1 + 1);
            drop(known);
            self.stop.wake();
        }
    }

    /// Begins a session, or ends it with `None`.
    pub(crate) fn set_session(&self, session: Option<Arc<HubSession>>) {
        if let Some(ended) = std::mem::replace(&mut *lock(&self.session), session) {
            ended.stop.raise();
            ended.client.close();
            *lock(&self.managed_cluster) = None;
        }
        self.stop.wake();
    }

    /// The current session, if there is a usable credential.
    pub(crate) fn session(&self) -> Option<Arc<HubSession>> {
        lock(&self.session).clone()
    }

    /// Waits for a session that has not ended; `None` when asked to end.
    pub(crate) fn next_session(&self) -> Option<Arc<HubSession>> {
        loop {
            let seen = self.stop.wakes();
            if let Some(session) = self.session().filter(|session| !session.stop.raised()) {
                return Some(session);
            }
            if self.stop.wait_for_change(seen, Instant::now() + SLICE) {
                return None;
            }
        }
    }

    /// The ManagedCluster as the hub showed it last in this session.
    pub(crate) fn managed_cluster(&self) -> Option<Value> {
        lock(&self.managed_cluster).clone()
    }

    /// What was seen in a session that has ended says nothing of this one.
    pub(crate) fn set_managed_cluster(&self, session: &HubSession, cluster: Option<Value>) {
        let mut known = lock(&self.managed_cluster);
        if !session.stop.raised() {
            *known = cluster;
            drop(known);
            self.stop.wake();
        }
    }

    /// What condition ClusterCertificateRotated is to say, if anything happened yet.
    pub(crate) fn rotated(&self) -> Option<Rotated> {
        lock(&self.rotated).clone()
    }

    pub(crate) fn set_rotated(&self, good: bool, message: String) {
        *lock(&self.rotated) = Some(Rotated { good, message });
        self.stop.wake();
    }

    /// Whoever asks for a certificate, if not the session's client.
    pub(crate) fn asking(&self) -> Option<Client> {
        lock(&self.asking).clone()
    }

    pub(crate) fn set_asking(&self, client: Option<Client>) {
        *lock(&self.asking) = client;
    }

    /// What time it is for the credential: by its hub, or else by the one that is asked.
    pub(crate) fn clocks(&self) -> Clocks {
        let session = self.session().and_then(|session| session.client.clock());
        let asking = || self.asking().and_then(|client| client.clock());
        Clocks::new(SystemTime::now(), Instant::now(), session.or_else(asking))
    }

    /// What time it is for a certificate that was asked for: by the hub that issued it.
    pub(crate) fn clocks_of_asked(&self) -> Clocks {
        match self.asking() {
            Some(client) => Clocks::new(SystemTime::now(), Instant::now(), client.clock()),
            None => self.clocks(),
        }
    }

    /// How it goes with the credential.
    pub(crate) fn progress(&self) -> MutexGuard<'_, CertificateStatus> {
        lock(&self.progress)
    }

    /// `Secret ns/name`, for sentences about the credential.
    pub(crate) fn secret_name(&self) -> String {
        format!("Secret {}/{}", self.settings.namespace, self.settings.hub_secret)
    }

    /// Says in the log and as an CoreEvent on the Secret what happened; that the CoreEvent cannot be written is
    /// no reason to stop for.
    pub(crate) fn tell(&self, reason: &'static str, warning: bool, message: &str) {
        match warning {
            true => log::warn!("{message}"),
            false => log::info!("{message}"),
        }
        let event =
            CoreEvent { source: "csr-bootstrapper", reason, message: message.to_owned(), warning };
        let Settings { namespace, hub_secret, .. } = &self.settings;
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "namespace": namespace, "name": hub_secret});
        if let CachedObject::Object(seen) = self.credential() {
            // By it kubectl describe finds the Events of an object.
            secret["uid"] = seen["metadata"]["uid"].clone();
        }
        if let Err(error) = event.write(&self.management, namespace, &secret) {
            log::debug!("{error}");
        }
    }
}
