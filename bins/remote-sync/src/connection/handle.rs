//! The connection as its readers have it: they never wait for the thread that supervises it.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use shared::{
    client::{Client, RequestMetrics},
    config::ClusterConfig,
    error::{Error, Result},
    lock::lock,
    stop::Stop,
};

use super::{
    identity::{self, ClusterIdentity, OwnPod},
    schedule::{ProbeSchedule, ProbeTiming},
};

/// What there is to know of a cluster before it is connected.
pub(crate) struct ConnectionConfig {
    /// Its name in messages and labels.
    pub(crate) name: String,
    /// When to connect and to probe.
    pub(crate) timing: ProbeTiming,
    /// A request other than a probe.
    pub(crate) request: Duration,
    /// What is asked for in a probe: every identity may read `/version`, but not `/`.
    pub(crate) probe_path: String,
    /// The uid of kube-system that it had before, where that is known.
    pub(crate) remembered: Option<String>,
    /// Identities of kube-system that may take the place of the one before.
    pub(crate) accepted: Vec<String>,
    /// Loads what is offered at once where a credential is refused; without it the next offer is awaited.
    pub(crate) reload: Option<ReloadCredentials>,
    /// The pod of this program, if it is known.
    pub(crate) pod: Option<Arc<OwnPod>>,
}

/// Gives the credentials as they are now.
pub(crate) type ReloadCredentials = Arc<dyn Fn() -> Result<ClusterConfig> + Send + Sync>;

/// Where a connection gets its client.
pub(crate) enum CredentialSource {
    /// The cluster that the program runs on: a client for it, which loads its credentials itself.
    Own(Box<dyn Fn(RequestMetrics) -> Result<Client> + Send>),
    /// Clients for what is passed to [`Connection::offer`].
    Offered,
}

/// A cluster with its connection; shared between the thread that supervises it and all who read.
pub(crate) struct Connection {
    pub(super) settings: ConnectionConfig,
    pub(super) stop: Stop,
    pub(super) state: Mutex<ConnectionState>,
    /// Of all clients so far.
    pub(super) requests: RequestMetrics,
}

/// One connection, from its beginning to its end.
#[derive(Clone)]
pub(crate) struct ClusterSession {
    /// Counts the connections of this cluster, from 1.
    pub(crate) number: u64,
    /// Of no use after its end: what runs on it is cut off, and nothing can begin.
    pub(crate) client: Client,
    /// The cluster that was found.
    pub(crate) identity: ClusterIdentity,
    /// Raised at its end.
    pub(crate) stop: Stop,
}

/// Never locked while something is waited for.
pub(super) struct ConnectionState {
    pub(super) schedule: ProbeSchedule,
    pub(super) session: Option<ClusterSession>,
    pub(super) offer: CredentialOffer,
    pub(super) identity: ClusterIdentity,
    /// Why the session is perhaps not with whom it began.
    pub(super) mistaken: Option<String>,
    pub(super) health: HealthRecord,
    /// When the thread that supervises it last came by.
    pub(super) beat: Option<Instant>,
}

/// The credentials as they are now.
pub(super) enum CredentialOffer {
    /// Nobody said anything yet.
    Awaited,
    /// What to use, and why a newer one can't be.
    Usable(Box<ClusterConfig>, Option<Error>),
    /// There are none.
    Refused(Error),
}

impl Connection {
    pub(super) fn new(settings: ConnectionConfig, stop: &Stop) -> Arc<Self> {
        let state = ConnectionState {
            schedule: ProbeSchedule::new(settings.timing),
            session: None,
            offer: CredentialOffer::Awaited,
            identity: ClusterIdentity::Unknown("it was never connected".into()),
            mistaken: None,
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

    /// Uses these credentials from now on; why there are none is kept for the next try to connect, and
    /// changes nothing for those in use.
    pub(crate) fn offer(&self, config: Result<ClusterConfig>) {
        if self.state().set_offer(config, self.name()) {
            self.stop.wake();
        }
    }

    /// There are no credentials any more, for a `reason`: the connection ends until there are.
    pub(crate) fn withdraw(&self, reason: &str) {
        self.state().offer = CredentialOffer::Refused(Error::NotFound(reason.to_owned()));
        self.stop.wake();
    }

    /// The connection that there is.
    ///
    /// # Errors
    /// `Unreachable` at once when there is none.
    pub(crate) fn session(&self) -> Result<ClusterSession> {
        let session = self.state().session().cloned();
        session.ok_or_else(|| {
            Error::Unreachable(format!("the connection to cluster {} is down", self.name()))
        })
    }

    /// The client of the connection that there is.
    ///
    /// # Errors
    /// `Unreachable` at once when there is none.
    pub(crate) fn client(&self) -> Result<Client> {
        self.session().map(|session| session.client)
    }

    /// The requests of all connections so far.
    pub(crate) fn requests(&self) -> &RequestMetrics {
        &self.requests
    }

    /// When the thread that supervises it last came by, once it runs.
    pub(crate) fn beat(&self) -> Option<Instant> {
        self.state().beat
    }

    /// Whether there is a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.state().session().is_some()
    }

    /// A request got no answer, or 401: the cluster is probed soon, however often this is said.
    pub(crate) fn doubt(&self) {
        if self.state().schedule.doubt(Instant::now()) {
            self.stop.wake();
        }
    }

    /// Whether the cluster of `session` is the one that answers now: to be asked after a lost connection,
    /// before anything is believed. If it is not, the connection ends.
    ///
    /// # Errors
    /// As the server says.
    pub(crate) fn is_still_there(&self, session: &ClusterSession) -> Result<bool> {
        let ClusterIdentity::Known(uid) = &session.identity else { return Ok(true) };
        let mistaken = match identity::read(&session.client)? {
            Ok(now) if now == *uid => return Ok(true),
            Ok(now) => format!("another cluster answered, with the uid {now} of kube-system"),
            Err(why) => format!("its identity can no longer be read: {why}"),
        };
        self.state().mistaken = Some(mistaken);
        self.stop.wake();
        Ok(false)
    }

    /// The cluster that was found by the last connection.
    pub(crate) fn identity(&self) -> ClusterIdentity {
        self.state().identity.clone()
    }

    /// The credentials as they are now; `None` while they are awaited.
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
    /// The session, unless the end of all was asked for.
    pub(super) fn session(&self) -> Option<&ClusterSession> {
        self.session.as_ref().filter(|session| !session.stop.raised())
    }

    /// Takes note of an offer; whether that is worth a look.
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
                    log::warn!("keeping the current credentials of cluster {name}: {error}");
                }
                *trouble = Some(error);
                false
            }
            (Err(error), _) => {
                self.offer = CredentialOffer::Refused(error);
                true
            }
        }
    }
}

/// What only reports are interested in.
pub(super) struct HealthRecord {
    pub(super) since: Instant,
    pub(super) connections: u64,
    pub(super) error: Option<String>,
    /// Probes that went well, and that did not.
    pub(super) probes: (u64, u64),
    pub(super) probe_was_good: Option<bool>,
}

impl HealthRecord {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, connections: 0, error: None, probes: (0, 0), probe_was_good: None }
    }

    /// Returns the number of the connection.
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

    /// It was heard without being asked.
    pub(super) fn recovered(&mut self) {
        (self.error, self.probe_was_good) = (None, Some(true));
    }

    pub(super) fn probed(&mut self, result: &Result<()>) {
        self.error = result.as_ref().err().map(ToString::to_string);
        self.probe_was_good = Some(result.is_ok());
        if result.is_ok() { self.probes.0 += 1 } else { self.probes.1 += 1 }
    }
}
