//! Supervisor: the thread that connects, probes and disconnects one cluster. Slow operations happen here, without a
//! lock.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::{
    backoff::Backoff,
    client::{Client, Reload, Timeouts},
    error::{Error, Result},
    log_line::seconds,
    resource::NAMESPACES,
    stop::Stop,
};
use kubeconfig::config::ClusterConfig;
use sidecar::runtime;

use super::{ClusterSession, Connection, ConnectionConfig, log_kept};
use crate::model::{
    annotations::Uid,
    known_clusters::{ClusterIdentity, ClusterRecord, OWN},
};

/// Consecutive failed probes that end a connection, as in clustercache.
const MAX_FAILURES: u32 = 5;
/// Jitter of the retry interval in both directions: clients must not reconnect to a recovered hub all at once.
const SPREAD: f64 = 0.2;

/// Supervises a cluster until `stop` is raised, with the credentials passed to [`Connection::offer`]. Wakes `readers`
/// when a session starts or ends.
pub(crate) fn start(
    config: ConnectionConfig,
    readers: Vec<Stop>,
    stop: &Stop,
) -> Result<Arc<Connection>> {
    let connection = Connection::new(config, stop);
    let backoff = Backoff::new(Duration::ZERO);
    let supervisor = Supervisor { connection: connection.clone(), readers, backoff };
    runtime::spawn("connection", move || supervisor.run())?;
    Ok(connection)
}

struct Supervisor {
    connection: Arc<Connection>,
    readers: Vec<Stop>,
    /// Decides which failed attempts to connect are logged.
    backoff: Backoff,
}

/// Why a session ended, and the wait before the next attempt to connect.
type SessionEnd = (String, Duration);

impl Supervisor {
    fn run(mut self) {
        let (mut tried, mut next) = (None, Instant::now());
        while let Some(offered) = self.wait_for_attempt(tried.as_ref(), next) {
            let started = Instant::now();
            let client = self.client(&offered);
            let admitted = client.and_then(|client| Ok((self.admit(&client)?, client)));
            let (used, wait) = match admitted {
                Ok((Ok(record), client)) => {
                    let session = self.begin(client, record, started.elapsed());
                    let (reason, wait) = self.keep(&session);
                    self.end(&session, &reason);
                    (Ok(session.client.config()), wait)
                }
                Ok((Err(why), _)) => (offered, self.connect_failed(&Error::Invalid(why), true)),
                Err(error) => (offered, self.connect_failed(&error, false)),
            };
            (tried, next) = (Some(used), Instant::now() + wait);
        }
    }

    /// Waits until `next`, or until the offered credentials differ from those last tried, which are tried at once.
    /// `None` after `stop`.
    fn wait_for_attempt(
        &self,
        tried: Option<&Result<ClusterConfig>>,
        next: Instant,
    ) -> Option<Result<ClusterConfig>> {
        let stop = &self.connection.stop;
        while !stop.raised() {
            let (seen, now) = (stop.wakes(), self.connection.note_beat());
            let offered = self.connection.state().offer.clone();
            if offered.is_some() && (offered.as_ref() != tried || next <= now) {
                return offered;
            }
            let last = now + Stop::SLICE;
            stop.wait_for_change(seen, if offered.is_some() { next.min(last) } else { last });
        }
        None
    }

    fn client(&self, offered: &Result<ClusterConfig>) -> Result<Client> {
        let (settings, requests) = (&self.connection.settings, self.connection.requests.clone());
        let timing = Timeouts::with_request(settings.request);
        let name = match &*settings.name {
            OWN => "the local cluster".to_owned(),
            name => format!("cluster {name}"),
        };
        Client::counting(&name, offered.clone()?, Reload::Never, timing, requests)
    }

    /// Returns the record of the cluster that answers, or why it is refused.
    fn admit(&self, client: &Client) -> Result<std::result::Result<ClusterRecord, String>> {
        let connection = &self.connection;
        let remote = connection.name();
        let shown = read_identity(client, connection.settings.timing.timeout).map_err(|error| {
            Error::Unreachable(format!("cluster {remote} is not reachable: {error}"))
        })?;
        if let Err(error) = shown.as_ref().map_err(|error| error.as_str())
            && self.backoff.failures() == 0
        {
            log::warn!(remote, error; "the cluster's identity cannot be read");
        }
        connection.settings.records.admit(remote, &shown, &connection.stop)
    }

    /// Records the failure, and returns the wait before the next attempt.
    fn connect_failed(&mut self, error: &Error, refused: bool) -> Duration {
        let (remote, wait) = (self.connection.name(), self.retry());
        let mut state = self.connection.state();
        state.failures = state.failures.saturating_add(1);
        (state.error, state.refused) = (Some(error.to_string()), refused);
        let (failures, retry_in) = (state.failures, seconds(wait));
        drop(state);
        let level = self.backoff.failed(error, Instant::now(), 0.0).level();
        log::log!(level, remote, error:% = error, failures, retry_in; "cannot connect");
        wait
    }

    fn begin(&mut self, client: Client, record: ClusterRecord, took: Duration) -> ClusterSession {
        let connection = &self.connection;
        let (remote, failures) = (connection.name(), self.backoff.succeeded());
        log::info!(remote, took = seconds(took), failures; "connected");
        let mut state = connection.state();
        (state.since, state.error, state.refused) = (Some(Instant::now()), None, false);
        (state.failures, state.doubted) = (0, false);
        state.sessions += 1;
        let cluster = Arc::new(ClusterIdentity::new(remote, record));
        state.cluster = cluster.clone();
        let (number, stop) = (state.sessions, connection.stop.child());
        let session = ClusterSession { number, client, cluster, stop };
        state.session = Some(session.clone());
        drop(state);
        self.readers.iter().for_each(Stop::wake);
        session
    }

    /// Probes the session and follows offered credentials, until the session must end.
    fn keep(&self, session: &ClusterSession) -> SessionEnd {
        let (connection, interval) = (&self.connection, self.connection.settings.timing.interval);
        let (mut used, mut probed) = (session.client.config(), Instant::now());
        loop {
            let (seen, now) = (connection.stop.wakes(), connection.note_beat());
            if session.stop.raised() {
                return ("another cluster may have answered".to_owned(), Duration::ZERO);
            }
            if let Some(reason) = self.use_credentials(session, &mut used) {
                return (reason, Duration::ZERO);
            }
            let doubted = connection.state().doubted;
            let next = probed + if doubted { interval / 2 } else { interval };
            if next > now {
                connection.stop.wait_for_change(seen, next.min(now + Stop::SLICE));
                continue;
            }
            // A response to a request or watch since the last probe resets the count of failures.
            let was_heard = session.client.heard() > Some(probed);
            let result = connection.probe(session);
            probed = Instant::now();
            let failures = connection.note_probe(&result, was_heard);
            match result {
                Ok(None) => {}
                Ok(Some(reason)) => return (reason, Duration::ZERO),
                // The next attempt follows at once with the current credentials (cluster-api v1.9.0
                // `controllers/clustercache/cluster_cache.go:489`).
                Err(error @ Error::Unauthorized(_)) => return (error.to_string(), Duration::ZERO),
                Err(error) if failures >= MAX_FAILURES => return (error.to_string(), self.retry()),
                Err(_) => {}
            }
        }
    }

    /// Switches to new credentials for the same server. Returns why the session must end if they are withdrawn, or are
    /// for another server, which may be another cluster.
    fn use_credentials(
        &self,
        session: &ClusterSession,
        used: &mut ClusterConfig,
    ) -> Option<String> {
        match self.connection.state().offer.clone()? {
            Err(error) => return Some(error.to_string()),
            Ok(config) if config == *used => {}
            Ok(config) if !is_same_server(used, &config) => {
                return Some("the kubeconfig has another server or CA".to_owned());
            }
            Ok(config) => {
                *used = config.clone();
                if let Err(error) = session.client.swap(config) {
                    log_kept(self.connection.name(), &error);
                }
            }
        }
        None
    }

    /// Ends the session: readers see that it is gone before its requests are aborted.
    fn end(&self, session: &ClusterSession, reason: &str) {
        let connection = &self.connection;
        let mut state = connection.state();
        state.session = None;
        (state.since, state.error) = (Some(Instant::now()), Some(reason.to_owned()));
        drop(state);
        session.stop.raise();
        session.client.close();
        if !connection.stop.raised() {
            log::warn!(remote = connection.name(), reason; "disconnected");
        }
        self.readers.iter().for_each(Stop::wake);
    }

    /// The wait before an attempt to connect after a failure.
    fn retry(&self) -> Duration {
        let jitter = 1.0 - SPREAD + 2.0 * SPREAD * fastrand::f64();
        self.connection.settings.timing.retry.mul_f64(jitter)
    }
}

impl Connection {
    /// Fails unless the cluster of `session` still answers: a new TCP connection may have reached another one. Another
    /// cluster ends the session.
    pub(crate) fn check(&self, session: &ClusterSession) -> Result<()> {
        if session.cluster.record.uid.is_none() {
            return Ok(());
        }
        let Some(reason) = self.probe(session)? else { return Ok(()) };
        // Even if the next probe reaches the right cluster: the last lists may be another one's.
        session.stop.raise();
        self.stop.wake();
        let name = self.name();
        Err(Error::Unreachable(format!("another cluster may answer as {name}: {reason}")))
    }

    /// Reads the identity of the cluster; returns why the session must end, if another cluster may answer.
    fn probe(&self, session: &ClusterSession) -> Result<Option<String>> {
        let answer = read_identity(&session.client, self.settings.timing.timeout)?;
        Ok(reason_to_reconnect(session.cluster.record.uid, &answer))
    }

    /// Records a probe, and returns the number of consecutive failures.
    fn note_probe(&self, result: &Result<Option<String>>, was_heard: bool) -> u32 {
        let mut state = self.state();
        state.probes[usize::from(result.is_err())] += 1;
        let error = result.as_ref().err().map(ToString::to_string);
        if let (None, Some(error)) = (&state.error, &error) {
            let remote = self.name();
            log::warn!(remote, error = error.as_str(); "the cluster's identity cannot be read");
        }
        state.failures = match result {
            Ok(_) => 0,
            Err(_) if was_heard => 1,
            Err(_) => state.failures + 1,
        };
        (state.error, state.doubted) = (error, false);
        state.failures
    }
}

/// Memory limit of the Namespace, in bytes. Annotations may have 256 KiB, but kube-system, which every watch reads, has
/// far fewer.
const MAX_NAMESPACE: usize = 128 << 10;

/// The uid that a cluster shows, or why it shows none.
type Shown = std::result::Result<Uid, String>;

/// Reads a cluster's identity: the uid of its Namespace kube-system, which reveals another cluster at the same address.
/// It is also the probe: every client gets a response, if only a 403.
fn read_identity(client: &Client, timeout: Duration) -> Result<Shown> {
    let place = NAMESPACES.cluster_object("kube-system");
    match client.limited_to(MAX_NAMESPACE).within(timeout).get(&place) {
        Ok(namespace) => Ok(Uid::of(&namespace["metadata"]["uid"]).ok_or_else(|| {
            format!("namespaces kube-system on {} has no uid of the usual form", client.name())
        })),
        Err(e @ (Error::Forbidden(_) | Error::NotFound(_) | Error::TooLarge(_))) => {
            Ok(Err(e.to_string()))
        }
        Err(e) => Err(e),
    }
}

/// Returns why a session with the cluster `before` must end, if another cluster may answer now. Each session is with
/// one cluster, and lists everything anew.
fn reason_to_reconnect(before: Option<Uid>, now: &Shown) -> Option<String> {
    match (before, now) {
        (Some(before), Ok(now)) if before == *now => None,
        (None, Err(_)) => None,
        (_, Ok(uid)) => Some(format!("the uid of kube-system is {uid}")),
        (Some(_), Err(why)) => Some(format!("its identity can no longer be read: {why}")),
    }
}

/// Returns whether both configurations verify the same server in the same way. Another server may be another cluster,
/// and requires a new session.
fn is_same_server(one: &ClusterConfig, other: &ClusterConfig) -> bool {
    one.server == other.server
        && one.trust == other.trust
        && one.server_name == other.server_name
        && one.proxy == other.proxy
}
