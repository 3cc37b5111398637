//! Supervisor: the thread that keeps one cluster connected, and the only one that waits for its responses to
//! probes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::{
    backoff::Backoff,
    client::{self, Client, Reload},
    error::{Error, Result},
    log_line::seconds,
    stop::Stop,
};
use kubeconfig::config::ClusterConfig;
use log::Level;

use super::{
    handle::{ClusterSession, Connection, CredentialOffer, CredentialSource, log_kept},
    identity::{self, Shown},
    schedule::{Due, ProbeOutcome, soonest},
};
use crate::model::known_clusters::ClusterRecord;

/// Every identity may read it, unlike `/`.
const PROBE_PATH: &str = "/version";

/// Performs what the schedule says is due. Everything slow happens here, without a lock.
pub(super) struct Supervisor {
    connection: Arc<Connection>,
    source: CredentialSource,
    /// Woken when a session starts or ends.
    readers: Vec<Stop>,
    random: fn() -> f64,
    /// Present while there is a session.
    attached: Option<Attached>,
    /// Decides which failures are logged.
    backoff: Backoff,
    /// The time of the last attempt to read the identity.
    identified: Instant,
    /// The time of the current iteration.
    now: Instant,
}

impl Supervisor {
    pub(super) fn new(
        connection: Arc<Connection>,
        source: CredentialSource,
        readers: Vec<Stop>,
        random: fn() -> f64,
    ) -> Self {
        let backoff = Backoff::new(Duration::ZERO);
        let (attached, now) = (None, Instant::now());
        let identified = now;
        Self { connection, source, readers, random, attached, backoff, identified, now }
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
        self.connection.state().beat = Some(self.now);
        let changed = self.check_credentials()
            || self.check_identity()
            || self.connect_or_probe()
            || self.read_identity();
        let state = self.connection.state();
        let due = state.schedule.due(self.now);
        let awaited = matches!(
            (&self.source, &state.offer),
            (CredentialSource::Offered, CredentialOffer::Awaited)
        );
        drop(state);
        if changed {
            self.readers.iter().for_each(Stop::wake);
        }
        let schedule = match due {
            Due::Wait(wait) => Some(wait),
            _ => (!awaited).then_some(Duration::ZERO),
        };
        soonest(
            schedule.into_iter().chain(self.identity_due()),
            self.connection.settings.timing.interval,
        )
    }

    /// Reconnects after another cluster seems to have answered, to read its identity.
    fn check_identity(&mut self) -> bool {
        let mistaken = self.connection.state().mistaken.take();
        mistaken.is_some_and(|reason| self.disconnect(Duration::ZERO, &reason))
    }

    /// The time until the identity is read again, while there is a session. A probe that failed is followed by
    /// others, which another request would only delay.
    fn identity_due(&self) -> Option<Duration> {
        let interval = self.connection.settings.timing.interval;
        let due = || (self.identified + interval).saturating_duration_since(self.now);
        let is_well = self.connection.state().schedule.failures() == 0;
        (self.attached.is_some() && is_well).then(due)
    }

    /// Reads the identity once in each probe interval, whatever else is asked of the cluster: it may change, or
    /// become unreadable, behind a connection that is well.
    fn read_identity(&mut self) -> bool {
        let (Some(Duration::ZERO), Ok(session)) = (self.identity_due(), self.connection.session())
        else {
            return false;
        };
        self.identified = self.now;
        let read = identity::read(&session.client, self.connection.settings.timing.timeout);
        self.connection.note_read(&read);
        let reason =
            read.ok().and_then(|now| identity::reason_to_reconnect(session.cluster.uid, &now));
        reason.is_some_and(|reason| self.disconnect(Duration::ZERO, &reason))
    }

    fn connect_or_probe(&mut self) -> bool {
        let due = {
            let mut state = self.connection.state();
            let heard = state.session.as_ref().and_then(|session| session.client.heard());
            let failures = state.schedule.failures();
            if let Some(heard) = heard {
                state.schedule.heard(heard);
            }
            if failures > 0 && state.schedule.failures() == 0 {
                state.health.recovered();
            }
            state.schedule.due(self.now)
        };
        match due {
            Due::Connect => self.connect(),
            Due::Probe => self.probe(),
            Due::Wait(_) => false,
        }
    }

    /// New credentials for the same server are used from the next request on; another server needs a new
    /// connection, as it may be another cluster.
    fn check_credentials(&mut self) -> bool {
        let Some(attached) = &mut self.attached else { return false };
        let config = match &self.source {
            CredentialSource::Local(_) => Ok(attached.client.config()),
            CredentialSource::Offered => match self.connection.offered() {
                Some(offered) => offered,
                None => return false,
            },
        };
        match config {
            Err(error) => {
                let retry = self.connection.settings.timing.retry;
                return self.disconnect(retry, &error.to_string());
            }
            Ok(config) if config == attached.config => {}
            Ok(config) if !is_same_server(&attached.config, &config) => {
                return self.disconnect(Duration::ZERO, OTHER_SERVER);
            }
            Ok(config) => {
                attached.config = config.clone();
                // A client that loads its credentials itself uses them already.
                if matches!(self.source, CredentialSource::Offered)
                    && let Err(error) = attached.client.swap(config)
                {
                    log_kept(self.connection.name(), &error);
                }
            }
        }
        false
    }

    fn connect(&mut self) -> bool {
        let client = match &self.source {
            CredentialSource::Local(make) => make(self.connection.requests.clone()),
            CredentialSource::Offered => match self.connection.offered() {
                Some(offered) => offered.and_then(|config| self.client(config)),
                None => return false,
            },
        };
        let started = self.now;
        let connected = client.and_then(|client| self.attach(client));
        self.now = Instant::now();
        match connected {
            Ok((attached, cluster)) => {
                self.connected(attached, cluster, self.now - started);
                true
            }
            Err(error) => {
                self.connect_failed(&error);
                false
            }
        }
    }

    fn client(&self, config: ClusterConfig) -> Result<Client> {
        let settings = &self.connection.settings;
        let timing = client::Timeouts::with_request(settings.request);
        let reload = match settings.reload.clone() {
            Some(reload) => {
                let of = config.clone();
                Reload::WhenRefused(Box::new(move || {
                    let config = reload()?;
                    match is_same_server(&config, &of) {
                        true => Ok(config),
                        false => Err(Error::bad_config(OTHER_SERVER)),
                    }
                }))
            }
            None => Reload::Never,
        };
        let whose = format!("cluster {}", settings.name);
        Client::counting(&whose, config, reload, timing, self.connection.requests.clone())
    }

    /// Reads the identity of the cluster that answers.
    fn attach(&mut self, client: Client) -> Result<(Attached, ClusterRecord)> {
        let config = client.config();
        self.probe_path(&client)?;
        let shown = identity::read(&client, self.connection.settings.request)?;
        let cluster = self.admit(shown)?;
        self.identified = Instant::now();
        Ok((Attached { client, config }, cluster))
    }

    /// The record of the cluster that shows this uid, unless it is another cluster than the recorded one.
    fn admit(&self, shown: Shown) -> Result<ClusterRecord> {
        let connection = &self.connection;
        let records = &connection.settings.records;
        let admitted = records.admit(connection.name(), &shown, &connection.stop)?;
        connection.note_read(&Ok(shown));
        connection.state().refused = admitted.as_ref().err().cloned();
        admitted.map_err(Error::Invalid)
    }

    /// Requests the probe's path. A 403 is a response too: some paths need rights.
    fn probe_path(&self, client: &Client) -> Result<()> {
        let settings = &self.connection.settings;
        let what = |why: String| format!("cluster {} is not reachable: {why}", settings.name);
        let (code, _) = client
            .within(settings.timing.timeout)
            .text(PROBE_PATH)
            .map_err(|error| Error::Unreachable(what(error.to_string())))?;
        let message = what(format!("get {PROBE_PATH}: {code}"));
        match code {
            200..=299 | 403 => Ok(()),
            401 => Err(Error::Unauthorized(message)),
            404 => Err(Error::NotServed(message)),
            429 | 500..=599 => {
                Err(Error::Unavailable { message, retry_after: None, of_object: false })
            }
            _ => Err(Error::Invalid(message)),
        }
    }

    fn connected(&mut self, attached: Attached, cluster: ClusterRecord, time: Duration) {
        let connection = &self.connection;
        let (remote, failures) = (connection.name(), self.backoff.succeeded());
        log::info!(remote, took = seconds(time), failures; "connected");
        let mut state = connection.state();
        let number = state.health.connected(self.now);
        let (client, stop) = (attached.client.clone(), connection.stop.child());
        state.cluster = Some(cluster.clone());
        state.session = Some(ClusterSession { number, client, cluster, stop });
        state.schedule.connected(self.now);
        drop(state);
        self.attached = Some(attached);
    }

    fn connect_failed(&mut self, error: &Error) {
        let remote = self.connection.name();
        let mut state = self.connection.state();
        state.schedule.connect_failed(
            matches!(error, Error::Unauthorized(_)),
            self.now,
            (self.random)(),
        );
        state.health.failed(error);
        // A cluster that does not answer is not another one.
        state.refused.take_if(|why| *why != error.message());
        let failures = state.schedule.failures();
        let retry_in = seconds(state.schedule.retry_in(self.now));
        drop(state);
        let news = self.backoff.failed(error, self.now, 0.0).should_log;
        let level = if news { Level::Warn } else { Level::Debug };
        log::log!(level, remote, error:% = error, failures, retry_in; "cannot connect");
    }

    fn probe(&mut self) -> bool {
        let Some(attached) = &self.attached else { return false };
        let result = self.probe_path(&attached.client);
        self.now = Instant::now();
        let outcome = match &result {
            Ok(()) => ProbeOutcome::Success,
            Err(Error::Unauthorized(_)) => ProbeOutcome::Unauthorized,
            Err(_) => ProbeOutcome::Failure,
        };
        let mut state = self.connection.state();
        let verdict = state.schedule.probed(outcome, self.now, (self.random)());
        state.health.probed(&result);
        let failures = state.schedule.failures();
        drop(state);
        let remote = self.connection.name();
        let Err(error) = result else {
            let failures = self.backoff.succeeded();
            if failures > 0 {
                log::info!(remote, failures; "probes succeed again");
            }
            return false;
        };
        let news = self.backoff.failed(&error, self.now, 0.0).should_log;
        if verdict.unauthorized || verdict.too_many {
            return self.report_disconnected(&error.to_string());
        }
        if news {
            log::warn!(remote, error:% = error, failures; "probe failed");
        }
        false
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
            self.connection.state().health.disconnected(self.now, reason);
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

/// The client of a session.
struct Attached {
    client: Client,
    /// The configuration that was offered last.
    config: ClusterConfig,
}

const OTHER_SERVER: &str = "the kubeconfig has another server or CA";

/// Returns whether both lead to the same server with the same trust. Another server needs another session, as it may be
/// another cluster.
fn is_same_server(one: &ClusterConfig, other: &ClusterConfig) -> bool {
    one.server == other.server
        && one.trust == other.trust
        && one.server_name == other.server_name
        && one.proxy == other.proxy
}
