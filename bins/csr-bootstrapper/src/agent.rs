//! What all threads share: settings, clients, and what is known of both clusters.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use serde_json::{Value, json};
use shared::{
    client::{Client, Reload, Timing},
    error::Result,
    event::Event,
    flags::Flags,
    kubeconfig,
    lock::lock,
    stop::Stop,
};

use crate::{names::Names, settings::Settings};

/// A request to either cluster.
pub(crate) const REQUEST: Duration = Duration::from_secs(10);
/// The longest sleep in one piece: a machine that slept itself is noticed this late.
pub(crate) const SLICE: Duration = Duration::from_secs(15);

/// The parts of the running program. A lock is never held across I/O.
pub(crate) struct Agent {
    pub(crate) settings: Settings,
    pub(crate) stop: Stop,
    /// The cluster of the Secrets.
    pub(crate) management: Arc<Client>,
    /// The cluster that joins the hub.
    pub(crate) spoke: Arc<Client>,
    pub(crate) started: SystemTime,
    session: Mutex<Option<Arc<Session>>>,
    names: Mutex<Option<Names>>,
    /// The ManagedCluster as the hub showed it last.
    managed_cluster: Mutex<Option<Value>>,
    rotated: Mutex<Option<Rotated>>,
}

/// The time in which there is one usable credential after another.
pub(crate) struct Session {
    /// The hub as the agent's own user; its credentials are swapped at each rotation.
    pub(crate) client: Client,
    /// Raised when there is no usable credential any more, or at the end.
    pub(crate) stop: Stop,
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
        let management = Arc::new(Client::of_own_cluster(flags, REQUEST)?);
        let spoke = match &settings.spoke_kubeconfig {
            None => management.clone(),
            Some(file) => {
                let file = file.clone();
                let load = move || kubeconfig::from_file(&file);
                let (access, reload) = (load()?, Reload::FromFiles(Box::new(load)));
                Arc::new(Client::new("the spoke", access, reload, Timing::with_request(REQUEST))?)
            }
        };
        Ok(Self {
            settings: settings.clone(),
            stop: stop.clone(),
            management,
            spoke,
            started: SystemTime::now(),
            session: Mutex::default(),
            names: Mutex::default(),
            managed_cluster: Mutex::default(),
            rotated: Mutex::default(),
        })
    }

    /// Who this agent is, once that is known.
    pub(crate) fn names(&self) -> Option<Names> {
        lock(&self.names).clone()
    }

    pub(crate) fn set_names(&self, names: Names) {
        *lock(&self.names) = Some(names);
        self.stop.wake();
    }

    /// The current session, if there is a usable credential.
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        lock(&self.session).clone()
    }

    /// Waits for a session that has not ended; `None` when asked to end.
    pub(crate) fn next_session(&self) -> Option<Arc<Session>> {
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

    pub(crate) fn set_managed_cluster(&self, cluster: Option<Value>) {
        *lock(&self.managed_cluster) = cluster;
        self.stop.wake();
    }

    /// What condition ClusterCertificateRotated is to say, if anything happened yet.
    pub(crate) fn rotated(&self) -> Option<Rotated> {
        lock(&self.rotated).clone()
    }

    pub(crate) fn set_rotated(&self, good: bool, message: String) {
        *lock(&self.rotated) = Some(Rotated { good, message });
        self.stop.wake();
    }

    /// Says in the log and as an Event on the Secret what happened; that the Event cannot be written is
    /// no reason to stop for.
    pub(crate) fn tell(&self, reason: &'static str, warning: bool, message: &str) {
        match warning {
            true => log::warn!("{message}"),
            false => log::info!("{message}"),
        }
        let event =
            Event { source: "csr-bootstrapper", reason, message: message.to_owned(), warning };
        let Settings { namespace, hub_secret, .. } = &self.settings;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "namespace": namespace, "name": hub_secret});
        if let Err(error) = event.write(&self.management, namespace, &secret) {
            log::debug!("{error}");
        }
    }
}
