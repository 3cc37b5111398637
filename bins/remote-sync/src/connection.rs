//! Supervised connection to one cluster: a thread connects, probes, disconnects and reconnects, like Cluster API's
//! clustercache. Readers never wait for it.

mod cluster_records;
pub(crate) mod supervisor;

use std::{
    mem,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use apiclient::{
    client::{Client, RequestMetrics},
    error::{Error, Result},
    lock::lock,
    rate_limiter::RateLimiter,
    stop::Stop,
};
use kubeconfig::config::ClusterConfig;
use serde_json::{Value, json};
use sidecar::metrics::{Family, Metrics};

pub(crate) use self::cluster_records::ClusterRecords;
use crate::model::{
    annotations::{Uid, cluster_mark},
    known_clusters::ClusterIdentity,
};

const CONNECTED: Family =
    Family::gauge("remote_sync_cluster_connected", "1 while the cluster is connected.");
const IDENTITY_REFUSED: Family = Family::gauge(
    "remote_sync_cluster_identity_refused",
    "1 while the cluster that answers is not the recorded one, and is not connected.",
);
const VERIFIED: Family = Family::gauge(
    "remote_sync_cluster_identity_verified",
    "1 if the cluster is recorded with the uid of its kube-system.",
);
const HEALTHY: Family = Family::gauge(
    "remote_sync_cluster_healthy",
    "1 while neither probes nor attempts to connect fail.",
);
const WATCHES: Family = Family::counter("remote_sync_watches_total", "Watches started.");
const PROBES: Family = Family::counter("remote_sync_cluster_probes_total", "Probes, by result.");

/// Intervals and time-out. With the default flags, they are Cluster API's (v1.9.0
/// `controllers/clustercache/cluster_cache.go:655,701-705`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbeTiming {
    /// The interval between attempts to connect, before jitter.
    pub(crate) retry: Duration,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
}

pub(crate) struct ConnectionConfig {
    /// The cluster's name in messages and labels.
    pub(crate) name: String,
    pub(crate) timing: ProbeTiming,
    /// The time-out of requests other than probes.
    pub(crate) request: Duration,
    /// Limits the workers' requests.
    pub(crate) limiter: RateLimiter,
    pub(crate) records: Arc<ClusterRecords>,
    /// Woken when the server refuses the current credentials.
    pub(crate) credentials: Stop,
}

/// A cluster and its connection, shared by the supervising thread and all readers.
pub(crate) struct Connection {
    settings: ConnectionConfig,
    pub(crate) watches: AtomicU64,
    stop: Stop,
    state: Mutex<ConnectionState>,
    /// Request metrics of all sessions.
    requests: RequestMetrics,
}

/// One connection, from its start to its end.
#[derive(Clone)]
pub(crate) struct ClusterSession {
    /// The number of this session of the cluster, from 1.
    pub(crate) number: u64,
    /// Closed at the end of the session, which aborts running requests.
    pub(crate) client: Client,
    pub(crate) cluster: Arc<ClusterIdentity>,
    /// Raised at the end of the session.
    pub(crate) stop: Stop,
}

/// The state of a connection. The lock is never held during a wait.
#[derive(Default)]
struct ConnectionState {
    session: Option<ClusterSession>,
    /// The current credentials, or why there are none; `None` until the first offer.
    offer: Option<Result<ClusterConfig>>,
    /// Why the last offer is not in use.
    unusable: Option<Error>,
    /// The last session's cluster; before the first session, an empty one.
    cluster: Arc<ClusterIdentity>,
    /// The cluster that answered last was refused: it is not the recorded one.
    refused: bool,
    /// Why the last probe or attempt to connect failed; `None` after a success.
    error: Option<String>,
    /// Consecutive failed attempts to connect, or probes.
    failures: u32,
    /// A request has had no response since the last probe.
    doubted: bool,
    /// The start or end of the last session.
    since: Option<Instant>,
    sessions: u64,
    probes: [u64; 2],
    /// When the supervising thread last iterated.
    beat: Option<Instant>,
}

impl Connection {
    fn new(settings: ConnectionConfig, stop: &Stop) -> Arc<Self> {
        Arc::new(Self {
            settings,
            watches: AtomicU64::new(0),
            stop: stop.child(),
            state: Mutex::default(),
            requests: RequestMetrics::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.settings.name
    }

    pub(crate) fn limiter(&self) -> &RateLimiter {
        &self.settings.limiter
    }

    /// Uses these credentials from now on. `NotFound` withdraws them and ends the connection; after another error the
    /// current ones stay in use.
    pub(crate) fn offer(&self, config: Result<ClusterConfig>) {
        let mut state = self.state();
        if let (Err(error), Some(Ok(_))) = (&config, &state.offer)
            && !matches!(error, Error::NotFound(_))
        {
            if state.unusable.as_ref() != Some(error) {
                log_kept(self.name(), error);
                state.unusable = Some(error.clone());
            }
            return;
        }
        state.unusable = None;
        if state.offer.as_ref() != Some(&config) {
            state.offer = Some(config);
            drop(state);
            self.stop.wake();
        }
    }

    /// Returns the current session, or `Unreachable` immediately.
    pub(crate) fn session(&self) -> Result<ClusterSession> {
        let session = self.state().session().cloned();
        session.ok_or_else(|| {
            Error::Unreachable(format!("the connection to cluster {} is down", self.name()))
        })
    }

    pub(crate) fn client(&self) -> Result<Client> {
        self.session().map(|session| session.client)
    }

    /// When the supervising thread last iterated, once it runs.
    pub(crate) fn beat(&self) -> Option<Instant> {
        self.state().beat
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.state().session().is_some()
    }

    /// Records an iteration of the supervising thread, and returns its time.
    fn note_beat(&self) -> Instant {
        *self.state().beat.insert(Instant::now())
    }

    /// Reports a request without a response, or with a 401. The next probe then follows half an interval after the last
    /// one, however many reports there are.
    pub(crate) fn doubt(&self) {
        if !mem::replace(&mut self.state().doubted, true) {
            self.stop.wake();
        }
    }

    /// Triggers a reload of the credentials: they may have been rotated since the last read.
    pub(crate) fn reload_credentials(&self) {
        self.settings.credentials.wake();
    }

    /// The last session's cluster.
    pub(crate) fn identity(&self) -> Arc<ClusterIdentity> {
        self.state().cluster.clone()
    }

    pub(crate) fn uid(&self) -> Option<Uid> {
        self.state().cluster.record.uid
    }

    /// How new marks name this cluster.
    pub(crate) fn mark(&self) -> String {
        cluster_mark(self.name(), self.uid())
    }

    /// Why the last probe or attempt to connect failed; `None` after a success.
    pub(crate) fn error(&self) -> Option<String> {
        self.state().error.clone()
    }

    /// Why the identity of the connected cluster is unknown or uncertain; `None` if it is verified or not connected.
    pub(crate) fn unverified(&self) -> Option<String> {
        let state = self.state();
        let session = state.session()?;
        let hidden = || "its namespace kube-system may not be read, or does not exist".to_owned();
        state.error.clone().or_else(|| session.cluster.record.uid.is_none().then(hidden))
    }

    /// The state as in `/debug/state`.
    pub(crate) fn to_json(&self) -> Value {
        let state = self.state();
        json!({
            "state": state.phase(),
            "seconds": state.since.map_or(0, |since| since.elapsed().as_secs()),
            "connections": state.sessions,
            "failures": state.failures,
            "error": state.error,
            "record": (state.sessions > 0).then(|| state.cluster.record.to_string()),
        })
    }

    pub(crate) fn add_to(&self, metrics: &mut Metrics) {
        let state = self.state();
        let remote = ("remote", self.name());
        metrics.add(CONNECTED, &[remote], u8::from(state.session().is_some()));
        metrics.add(IDENTITY_REFUSED, &[remote], u8::from(state.refused));
        metrics.add(VERIFIED, &[remote], u8::from(state.cluster.record.uid.is_some()));
        let [good, bad] = state.probes;
        if good + bad > 0 {
            metrics.add(HEALTHY, &[remote], u8::from(state.failures == 0));
        }
        for (result, count) in [("success", good), ("error", bad)] {
            metrics.add(PROBES, &[remote, ("result", result)], count);
        }
        metrics.add(WATCHES, &[remote], self.watches.load(Relaxed));
        match state.session() {
            Some(session) => metrics.add_client(self.name(), &session.client),
            None => metrics.add_requests(self.name(), &self.requests),
        }
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        lock(&self.state)
    }
}

impl ConnectionState {
    /// The current session, unless its `stop` was raised.
    fn session(&self) -> Option<&ClusterSession> {
        self.session.as_ref().filter(|session| !session.stop.raised())
    }

    fn phase(&self) -> &'static str {
        match self.session() {
            Some(_) => "Connected",
            None if self.refused => "IdentityRefused",
            None => "Disconnected",
        }
    }
}

fn log_kept(remote: &str, error: &Error) {
    log::warn!(remote, error:% = error; "keeping the current credentials");
}

#[cfg(test)]
impl Default for ProbeTiming {
    fn default() -> Self {
        let [retry, interval, timeout] = [30, 10, 5].map(Duration::from_secs);
        Self { retry, interval, timeout }
    }
}

#[cfg(test)]
pub(crate) mod tests;
