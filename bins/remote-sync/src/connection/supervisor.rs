//! Supervisor: the thread that connects, probes and disconnects one cluster.

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
use log::Level;
use sidecar::runtime;

use super::{ClusterSession, Connection, ConnectionConfig, log_kept, schedule::Due};
use crate::model::{
    annotations::Uid,
    known_clusters::{ClusterRecord, OWN, SourceMarks},
};

/// Starts the supervision of a cluster until `stop` is raised, with the credentials passed to [`Connection::offer`];
/// wakes `readers` when a session starts or ends.
pub(crate) fn start(
    config: ConnectionConfig,
    readers: Vec<Stop>,
    stop: &Stop,
) -> Result<Arc<Connection>> {
    let connection = Connection::new(config, stop);
    let supervisor = Supervisor::new(connection.clone(), readers, fastrand::f64);
    runtime::spawn("connection", move || supervisor.run())?;
    Ok(connection)
}

/// Performs what the schedule says is due. Everything slow happens here, without a lock.
pub(super) struct Supervisor {
    connection: Arc<Connection>,
    readers: Vec<Stop>,
    random: fn() -> f64,
    /// The session, and the configuration that was offered for it last.
    attached: Option<(ClusterSession, ClusterConfig)>,
    /// Decides which failures to connect are logged.
    backoff: Backoff,
    now: Instant,
}

impl Supervisor {
    pub(super) fn new(
        connection: Arc<Connection>,
        readers: Vec<Stop>,
        random: fn() -> f64,
    ) -> Self {
        let (backoff, now) = (Backoff::new(Duration::ZERO), Instant::now());
        Self { connection, readers, random, attached: None, backoff, now }
    }

    pub(super) fn run(mut self) {
        let stop = self.connection.stop.clone();
        loop {
            let seen = stop.wakes();
            let wait = self.run_once().min(Stop::SLICE);
            if stop.wait_for_change(seen, self.now + wait) {
                break;
            }
        }
        self.end();
    }

    /// Performs the one thing that is due; returns how long nothing will be.
    pub(super) fn run_once(&mut self) -> Duration {
        self.now = Instant::now();
        {
            let mut state = self.connection.state();
            state.beat = Some(self.now);
            if let Some(heard) = state.session.as_ref().and_then(|it| it.client.heard()) {
                state.schedule.heard(heard);
            }
        }
        let changed = self.check_session() || self.check_credentials() || self.connect_or_probe();
        if changed {
            self.readers.iter().for_each(Stop::wake);
        }
        match self.due() {
            Due::Wait(wait) => wait,
            Due::Connect | Due::Probe => Duration::ZERO,
        }
    }

    fn due(&self) -> Due {
        self.connection.state().schedule.due(self.now)
    }

    fn connect_or_probe(&mut self) -> bool {
        match self.due() {
            Due::Connect => self.connect(),
            Due::Probe => self.probe(),
            Due::Wait(_) => false,
        }
    }

    /// Ends a session whose reader met another cluster.
    fn check_session(&mut self) -> bool {
        let ended = self.attached.as_ref().is_some_and(|(session, _)| session.stop.raised());
        ended
            && !self.connection.stop.raised()
            && self.disconnect(Duration::ZERO, "another cluster may have answered")
    }

    /// New credentials for the same server are used from the next request on; another server needs a new
    /// connection, as it may be another cluster.
    fn check_credentials(&mut self) -> bool {
        let Some((session, attached)) = &mut self.attached else { return false };
        let Some(offered) = self.connection.state().offer.clone() else { return false };
        match offered {
            Err(error) => {
                let retry = self.connection.settings.timing.retry;
                return self.disconnect(retry, &error.to_string());
            }
            Ok(config) if config == *attached => {}
            Ok(config) if !is_same_server(attached, &config) => {
                let reason = "the kubeconfig has another server or CA";
                return self.disconnect(Duration::ZERO, reason);
            }
            Ok(config) => {
                *attached = config.clone();
                if let Err(error) = session.client.swap(config) {
                    log_kept(self.connection.name(), &error);
                }
            }
        }
        false
    }

    fn connect(&mut self) -> bool {
        let started = self.now;
        let admitted = self.client().and_then(|client| Ok((self.admit(&client)?, client)));
        self.now = Instant::now();
        match admitted {
            Ok((Ok(cluster), client)) => {
                self.connected(client, cluster, self.now - started);
                true
            }
            Ok((Err(refusal), _)) => self.connect_failed(&Error::Invalid(refusal), true),
            Err(error) => self.connect_failed(&error, false),
        }
    }

    fn client(&self) -> Result<Client> {
        let (settings, requests) = (&self.connection.settings, self.connection.requests.clone());
        let missing = || Err(Error::bad_config("there are no credentials"));
        let config = self.connection.state().offer.clone().unwrap_or_else(missing)?;
        let timing = Timeouts::with_request(settings.request);
        let name = match &*settings.name {
            OWN => "the local cluster".to_owned(),
            name => format!("cluster {name}"),
        };
        Client::counting(&name, config, Reload::Never, timing, requests)
    }

    /// The record of the cluster that answers, or the reason why it is not the remote.
    fn admit(&self, client: &Client) -> Result<std::result::Result<ClusterRecord, String>> {
        let connection = &self.connection;
        let shown = read_identity(client, connection.settings.timing.timeout)
            .map_err(|error| unreachable(connection.name(), error))?;
        if let Err(error) = shown.as_ref().map_err(|error| error.as_str())
            && self.backoff.failures() == 0
        {
            let remote = connection.name();
            log::warn!(remote, error; "the cluster's identity cannot be read");
        }
        connection.settings.records.admit(connection.name(), &shown, &connection.stop)
    }

    fn connected(&mut self, client: Client, cluster: ClusterRecord, time: Duration) {
        let connection = &self.connection;
        let (remote, failures) = (connection.name(), self.backoff.succeeded());
        log::info!(remote, took = seconds(time), failures; "connected");
        let mut state = connection.state();
        (state.since, state.error, state.refused) = (self.now, None, false);
        state.sessions += 1;
        state.marks = SourceMarks::new(remote, &cluster);
        state.cluster = Some(cluster.clone());
        state.schedule.answered(self.now);
        let (number, stop, config) = (state.sessions, connection.stop.child(), client.config());
        let session = ClusterSession { number, client, cluster, stop };
        state.session = Some(session.clone());
        drop(state);
        self.attached = Some((session, config));
    }

    fn connect_failed(&mut self, error: &Error, refused: bool) -> bool {
        let remote = self.connection.name();
        let unauthorized = matches!(error, Error::Unauthorized(_));
        let mut state = self.connection.state();
        state.schedule.failed(unauthorized, self.now, (self.random)());
        (state.error, state.refused) = (Some(error.to_string()), refused);
        let failures = state.schedule.failures;
        let retry_in = seconds(state.schedule.wait(self.now));
        drop(state);
        let news = self.backoff.failed(error, self.now, 0.0).should_log;
        let level = if news { Level::Warn } else { Level::Debug };
        log::log!(level, remote, error:% = error, failures, retry_in; "cannot connect");
        false
    }

    fn probe(&mut self) -> bool {
        let Some((session, _)) = &self.attached else { return false };
        let result = self.connection.probe(session);
        self.now = Instant::now();
        let mut state = self.connection.state();
        state.probes[usize::from(result.is_err())] += 1;
        let error = result.as_ref().err().map(ToString::to_string);
        if let (None, Some(error)) = (&state.error, &error) {
            let remote = self.connection.name();
            log::warn!(remote, error = error.as_str(); "the cluster's identity cannot be read");
        }
        state.error = error;
        let ends = match &result {
            Ok(_) => {
                state.schedule.answered(self.now);
                false
            }
            Err(error) => {
                let unauthorized = matches!(error, Error::Unauthorized(_));
                state.schedule.failed(unauthorized, self.now, (self.random)())
            }
        };
        drop(state);
        match result {
            Ok(Some(reason)) => self.disconnect(Duration::ZERO, &reason),
            Err(error) if ends => self.report_disconnected(&error.to_string()),
            Ok(None) | Err(_) => false,
        }
    }

    /// Ends the session and reconnects after `retry`.
    fn disconnect(&mut self, retry: Duration, reason: &str) -> bool {
        self.connection.state().schedule.disconnected(self.now + retry);
        self.report_disconnected(reason)
    }

    /// Ends the session, which the schedule has ended already.
    fn report_disconnected(&mut self, reason: &str) -> bool {
        let ended = self.end();
        if ended {
            let mut state = self.connection.state();
            (state.since, state.error) = (self.now, Some(reason.to_owned()));
            drop(state);
            log::warn!(remote = self.connection.name(), reason; "disconnected");
        }
        ended
    }

    /// Readers first see that the session is gone; then its requests are aborted.
    fn end(&mut self) -> bool {
        self.attached = None;
        let Some(session) = self.connection.state().session.take() else { return false };
        session.stop.raise();
        session.client.close();
        true
    }
}

impl Connection {
    /// Fails unless the cluster that answers now is that of `session`, which a lost TCP connection may have changed.
    /// Another cluster ends the session.
    pub(crate) fn check(&self, session: &ClusterSession) -> Result<()> {
        if session.cluster.uid.is_none() {
            return Ok(());
        }
        let Some(reason) = self.probe(session)? else { return Ok(()) };
        // Also if the next probe reaches the right one: the last lists may be another cluster's.
        session.stop.raise();
        self.stop.wake();
        let name = self.name();
        Err(Error::Unreachable(format!("another cluster may answer as {name}: {reason}")))
    }

    /// Reads which cluster answers; returns why the session has to end, if another one may.
    pub(super) fn probe(&self, session: &ClusterSession) -> Result<Option<String>> {
        let answer = read_identity(&session.client, self.settings.timing.timeout)?;
        Ok(reason_to_reconnect(session.cluster.uid, &answer))
    }
}

/// Memory that the Namespace may cost, in bytes. Annotations may have 256 KiB, but nobody puts that much on
/// kube-system, which every watch reads.
const MAX_NAMESPACE: usize = 128 << 10;

/// The uid that a cluster shows, or the reason why it shows none.
pub(super) type Shown = std::result::Result<Uid, String>;

/// Reads a cluster's identity: the uid of its Namespace kube-system, which shows when a different cluster answers at
/// the same address. This is a probe: every client gets a response, if only a 403.
pub(super) fn read_identity(client: &Client, timeout: Duration) -> Result<Shown> {
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

/// The reason why a session with the cluster `before` has to be replaced, if another cluster may answer now: each
/// session is with one cluster, and lists everything again.
pub(super) fn reason_to_reconnect(before: Option<Uid>, now: &Shown) -> Option<String> {
    match (before, now) {
        (Some(before), Ok(now)) if before == *now => None,
        (None, Err(_)) => None,
        (_, Ok(uid)) => Some(format!("the uid of kube-system is {uid}")),
        (Some(_), Err(why)) => Some(format!("its identity can no longer be read: {why}")),
    }
}

/// The failure to read which cluster it is, of a cluster without a session.
fn unreachable(remote: &str, error: Error) -> Error {
    let what = format!("cluster {remote} is not reachable: {error}");
    match error {
        Error::Unauthorized(_) => Error::Unauthorized(what),
        Error::NotServed(_) => Error::NotServed(what),
        _ => Error::Unreachable(what),
    }
}

/// Returns whether both lead to the same server with the same trust. Another server needs another session, as it may be
/// another cluster.
fn is_same_server(one: &ClusterConfig, other: &ClusterConfig) -> bool {
    one.server == other.server
        && one.trust == other.trust
        && one.server_name == other.server_name
        && one.proxy == other.proxy
}
