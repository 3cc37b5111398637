//! Connection handle for readers, who never wait for the supervising thread.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use apiclient::{
    client::{Client, RequestMetrics},
    error::{Error, Result},
    lock::lock,
    stop::Stop,
};
use kubeconfig::config::ClusterConfig;

use super::{
    cluster_records::ClusterRecords,
    schedule::{ProbeSchedule, ProbeTiming},
};
use crate::model::known_clusters::ClusterRecord;

/// Configuration of a connection.
pub(crate) struct ConnectionConfig {
    /// The cluster's name in messages and labels.
    pub(crate) name: String,
    /// Intervals of attempts to connect and of probes.
    pub(crate) timing: ProbeTiming,
    /// Timeout of requests other than probes.
    pub(crate) request: Duration,
    /// Which cluster each remote is.
    pub(crate) records: Arc<ClusterRecords>,
    /// Reloads the credentials as soon as they are rejected; without it the next offer is awaited.
    pub(crate) reload: Option<ReloadCredentials>,
}

/// Loads the current credentials.
pub(crate) type ReloadCredentials = Arc<dyn Fn() -> Result<ClusterConfig> + Send + Sync>;

/// The source of a connection's client.
pub(crate) enum CredentialSource {
    /// The local cluster: a client that loads its credentials itself.
    Local(Box<dyn Fn(RequestMetrics) -> Result<Client> + Send>),
    /// Clients for the credentials passed to [`Connection::offer`].
    Offered,
}

/// A cluster's connection, shared between the supervising thread and all readers.
pub(crate) struct Connection {
    pub(super) settings: ConnectionConfig,
    pub(super) stop: Stop,
    pub(super) state: Mutex<ConnectionState>,
    /// The requests of all sessions.
    pub(super) requests: RequestMetrics,
}

/// A session: one connection from its start to its end.
#[derive(Clone)]
pub(crate) struct ClusterSession {
    /// Counts the sessions of this cluster, from 1.
    pub(crate) number: u64,
    /// Closed at the end of the session: running requests are aborted and new ones fail.
    pub(crate) client: Client,
    /// The record of the cluster that answered.
    pub(crate) cluster: ClusterRecord,
    /// Raised at the end of the session.
    pub(crate) stop: Stop,
}

/// The state of a connection; never locked while waiting.
pub(super) struct ConnectionState {
    pub(super) schedule: ProbeSchedule,
    pub(super) session: Option<ClusterSession>,
    pub(super) offer: CredentialOffer,
    /// The record of the cluster of the last session.
    pub(super) cluster: Option<ClusterRecord>,
    /// The reason why the cluster that answered last is not the remote.
    pub(super) refused: Option<String>,
    /// Set if the session may be with another cluster than at its start, with the reason.
    pub(super) mistaken: Option<String>,
    /// The reason why the last read of the identity failed.
    pub(super) unread: Option<String>,
    pub(super) health: HealthRecord,
    /// The last iteration of the supervising thread.
    pub(super) beat: Option<Instant>,
}

/// The current credentials.
pub(super) enum CredentialOffer {
    /// None were offered yet.
    Awaited,
    /// The credentials to use, and why newer ones are unusable.
    Usable(Box<ClusterConfig>, Option<Error>),
    /// There are none, for this reason.
    Refused(Error),
}

impl CredentialOffer {
    fn is_refused(&self, why: &Error) -> bool {
        matches!(self, Self::Refused(error) if error == why)
    }
}

impl Connection {
    pub(super) fn new(settings: ConnectionConfig, stop: &Stop) -> Arc<Self> {
        let state = ConnectionState {
            schedule: ProbeSchedule::new(settings.timing),
            session: None,
            offer: CredentialOffer::Awaited,
            cluster: None,
            refused: None,
            mistaken: None,
            unread: None,
            health: HealthRecord::new(Instant::now()),
            beat: None,
        };
        let (state, requests) = (Mutex::new(state), RequestMetrics::default());
        Arc::new(Self { settings, stop: stop.child(), state, requests })
    }

    /// The cluster's name.
    pub(crate) fn name(&self) -> &str {
        &self.settings.name
    }

    /// Uses these credentials from now on. An error is kept for the next attempt to connect, and changes nothing
    /// for credentials in use.
    pub(crate) fn offer(&self, config: Result<ClusterConfig>) {
        if self.state().set_offer(config, self.name()) {
            self.stop.wake();
        }
    }

    /// Withdraws the credentials, which ends the connection until new ones are offered.
    pub(crate) fn withdraw(&self, reason: &str) {
        let error = Error::NotFound(reason.to_owned());
        let mut state = self.state();
        if !state.offer.is_refused(&error) {
            state.offer = CredentialOffer::Refused(error);
            drop(state);
            self.stop.wake();
        }
    }

    /// The current session.
    ///
    /// # Errors
    /// `Unreachable`, without waiting, if there is none.
    pub(crate) fn session(&self) -> Result<ClusterSession> {
        let session = self.state().session().cloned();
        session.ok_or_else(|| {
            Error::Unreachable(format!("the connection to cluster {} is down", self.name()))
        })
    }

    /// The client of the current session.
    ///
    /// # Errors
    /// `Unreachable`, without waiting, if there is none.
    pub(crate) fn client(&self) -> Result<Client> {
        self.session().map(|session| session.client)
    }

    /// The requests of all sessions so far.
    pub(crate) fn requests(&self) -> &RequestMetrics {
        &self.requests
    }

    /// The last iteration of the supervising thread, once it runs.
    pub(crate) fn beat(&self) -> Option<Instant> {
        self.state().beat
    }

    /// Returns whether there is a session.
    pub(crate) fn is_connected(&self) -> bool {
        self.state().session().is_some()
    }

    /// Reports a request without a response, or with 401: the cluster is probed soon, but not more often for more
    /// reports.
    pub(crate) fn doubt(&self) {
        if self.state().schedule.doubt(Instant::now()) {
            self.stop.wake();
        }
    }

    /// The record of the cluster of the last session.
    pub(crate) fn cluster(&self) -> Option<ClusterRecord> {
        self.state().cluster.clone()
    }

    /// The current credentials; `None` while they are awaited.
    pub(super) fn offered(&self) -> Option<Result<ClusterConfig>> {
        match &self.state().offer {
            CredentialOffer::Awaited => None,
            CredentialOffer::Usable(config, _) => Some(Ok((**config).clone())),
            CredentialOffer::Refused(error) => Some(Err(error.clone())),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ConnectionState> {
        lock(&self.state)
    }
}

impl ConnectionState {
    /// The session, unless `stop` was raised.
    pub(super) fn session(&self) -> Option<&ClusterSession> {
        self.session.as_ref().filter(|session| !session.stop.raised())
    }

    /// Records an offer; whether the supervisor has to act on it.
    fn set_offer(&mut self, config: Result<ClusterConfig>, name: &str) -> bool {
        match (config, &mut self.offer) {
            (Ok(new), CredentialOffer::Usable(old, trouble)) if **old == new => {
                *trouble = None;
                false
            }
            (Ok(new), _) => {
                self.offer = CredentialOffer::Usable(Box::new(new), None);
                self.schedule.offered();
                true
            }
            (Err(error), CredentialOffer::Usable(_, trouble)) => {
                if trouble.as_ref() != Some(&error) {
                    log_kept(name, &error);
                }
                *trouble = Some(error);
                false
            }
            (Err(error), offer) if offer.is_refused(&error) => false,
            (Err(error), _) => {
                self.offer = CredentialOffer::Refused(error);
                true
            }
        }
    }
}

/// Logs why credentials that were offered are not used.
pub(super) fn log_kept(remote: &str, error: &Error) {
    log::warn!(remote, error:% = error; "keeping the current credentials");
}

/// The part of the state that is only reported.
pub(super) struct HealthRecord {
    pub(super) since: Instant,
    pub(super) connections: u64,
    pub(super) error: Option<String>,
    /// Successful and failed probes.
    pub(super) probes: (u64, u64),
    pub(super) probe_was_good: Option<bool>,
}

impl HealthRecord {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, connections: 0, error: None, probes: (0, 0), probe_was_good: None }
    }

    /// Returns the number of the new session.
    pub(super) fn connected(&mut self, now: Instant) -> u64 {
        (self.since, self.error) = (now, None);
        self.connections += 1;
        self.connections
    }

    pub(super) fn disconnected(&mut self, now: Instant, reason: &str) {
        (self.since, self.error) = (now, Some(reason.to_owned()));
    }

    pub(super) fn failed(&mut self, error: &Error) {
        self.error = Some(error.to_string());
    }

    /// The cluster responded to something else than a probe.
    pub(super) fn recovered(&mut self) {
        (self.error, self.probe_was_good) = (None, Some(true));
    }

    pub(super) fn probed(&mut self, result: &Result<()>) {
        self.error = result.as_ref().err().map(ToString::to_string);
        self.probe_was_good = Some(result.is_ok());
        if result.is_ok() { self.probes.0 += 1 } else { self.probes.1 += 1 }
    }
}
