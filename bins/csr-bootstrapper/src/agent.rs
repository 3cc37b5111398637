//! What all threads share: settings, clients, and what is known of both clusters.

use std::{
    sync::{Arc, Mutex, MutexGuard},
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

use crate::{
    known::{Bootstrap, Sighting},
    names::Names,
    progress::Progress,
    settings::Settings,
};

/// The hub's clock counts for certificates; by less than this it is ours.
const SKEW: Duration = Duration::from_secs(5);
/// A request to either cluster.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(10);
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
    credential: Mutex<Sighting>,
    /// The one that can be used now, and how often that changed.
    bootstrap: Mutex<(Option<Bootstrap>, u64)>,
    session: Mutex<Option<Arc<Session>>>,
    names: Mutex<Option<Names>>,
    /// The ManagedCluster as the hub showed it last.
    managed_cluster: Mutex<Option<Value>>,
    rotated: Mutex<Option<Rotated>>,
    /// Whoever asks for a certificate, if not the session's client.
    asking: Mutex<Option<Arc<Client>>>,
    /// How far the hub's clock is ahead, in seconds, as it was last seen.
    skew: Mutex<Option<i64>>,
    progress: Mutex<Progress>,
}

/// The time in which there is one usable credential after another.
pub(crate) struct Session {
    /// The hub as the agent's own user; its credentials are swapped at each rotation.
    pub(crate) client: Arc<Client>,
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
        let management = Arc::new(Client::of_own_cluster(flags, REQUEST_TIME)?);
        let spoke = match &settings.spoke_kubeconfig {
            None => management.clone(),
            Some(file) => {
                let file = file.clone();
                let load = move || kubeconfig::from_file(&file);
                let (access, reload) = (load()?, Reload::FromFiles(Box::new(load)));
                Arc::new(Client::new(
                    "the spoke",
                    access,
                    reload,
                    Timing::with_request(REQUEST_TIME),
                )?)
            }
        };
        Ok(Self {
            settings: settings.clone(),
            stop: stop.clone(),
            management,
            spoke,
            started: SystemTime::now(),
            credential: Mutex::default(),
            bootstrap: Mutex::default(),
            session: Mutex::default(),
            names: Mutex::default(),
            managed_cluster: Mutex::default(),
            rotated: Mutex::default(),
            asking: Mutex::default(),
            skew: Mutex::default(),
            progress: Mutex::new(Progress::new(settings.election.is_some())),
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

    /// The Secret with the hub's credential.
    pub(crate) fn credential(&self) -> Sighting {
        lock(&self.credential).clone()
    }

    pub(crate) fn set_credential(&self, secret: Sighting) {
        *lock(&self.credential) = secret;
        self.stop.wake();
    }

    /// The bootstrap kubeconfig, if there is one that can be used, and how often that changed.
    pub(crate) fn bootstrap(&self) -> (Option<Bootstrap>, u64) {
        lock(&self.bootstrap).clone()
    }

    pub(crate) fn set_bootstrap(&self, bootstrap: Option<Bootstrap>) {
        let mut known = lock(&self.bootstrap);
        if known.0 != bootstrap {
            *known = (bootstrap, known.1 + 1);
            drop(known);
            self.stop.wake();
        }
    }

    /// Begins a session, or ends it with `None`.
    pub(crate) fn set_session(&self, session: Option<Arc<Session>>) {
        if let Some(ended) = std::mem::replace(&mut *lock(&self.session), session) {
            ended.stop.raise();
            ended.client.close();
            *lock(&self.managed_cluster) = None;
        }
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

    /// Whoever asks for a certificate, if not the session's client; then the hub's clock is by its answers.
    pub(crate) fn asking(&self) -> Option<Arc<Client>> {
        lock(&self.asking).clone()
    }

    pub(crate) fn set_asking(&self, client: Option<Arc<Client>>) {
        *lock(&self.asking) = client;
    }

    /// Whether the hub has told its time yet.
    pub(crate) fn knows_time(&self) -> bool {
        lock(&self.skew).is_some()
    }

    /// The time by the hub's clock, which judges certificates.
    pub(crate) fn now(&self) -> SystemTime {
        // Whoever asks at present hears the hub last.
        let asking = self.asking().and_then(|client| client.clock_skew());
        let session = || self.session().and_then(|session| session.client.clock_skew());
        let heard = asking.or_else(session);
        let mut known = lock(&self.skew);
        *known = heard.or(*known);
        let skew = known.unwrap_or_default();
        drop(known);
        let (now, time) = (SystemTime::now(), Duration::from_secs(skew.unsigned_abs()));
        match skew {
            _ if time < SKEW => now,
            ..0 => now.checked_sub(time).unwrap_or(now),
            _ => now + time,
        }
    }

    /// How it goes with the credential.
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }

    /// Takes note of the election; returns whether this replica led before.
    pub(crate) fn set_lead(&self, leads: bool, stands_by: bool) -> bool {
        let before = self.progress().set_lead(leads, stands_by);
        if before != Some(leads) {
            self.stop.wake();
        }
        before == Some(true)
    }

    /// `Secret ns/name`, for sentences about the credential.
    pub(crate) fn secret_name(&self) -> String {
        format!("Secret {}/{}", self.settings.namespace, self.settings.hub_secret)
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
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "namespace": namespace, "name": hub_secret});
        if let Sighting::Object(seen) = self.credential() {
            // By it kubectl describe finds the Events of an object.
            secret["uid"] = seen["metadata"]["uid"].clone();
        }
        if let Err(error) = event.write(&self.management, namespace, &secret) {
            log::debug!("{error}");
        }
    }
}
