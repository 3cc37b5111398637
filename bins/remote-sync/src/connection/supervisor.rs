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
    ConnectionEvent, Notify,
    attached::{Attached, of_same_server, same_server},
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
    notify: Notify,
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
        notify: Notify,
        random: fn() -> f64,
    ) -> Self {
        let backoff = Backoff::new(Duration::ZERO);
        let (attached, now) = (None, Instant::now());
        let identified = now;
        Self { connection, source, notify, random, attached, backoff, identified, now }
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
        let happened = self
            .check_credentials()
            .or_else(|| self.check_identity())
            .or_else(|| self.connect_or_probe())
            .or_else(|| self.read_identity());
        let state = self.connection.state();
        let due = state.schedule.due(self.now);
        let awaited = matches!(
            (&self.source, &state.offer),
            (CredentialSource::Offered, CredentialOffer::Awaited)
        );
        drop(state);
        if let Some(event) = happened {
            (self.notify)(event);
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
    fn check_identity(&mut self) -> Option<ConnectionEvent> {
        let mistaken = self.connection.state().mistaken.take()?;
        self.disconnect(Duration::ZERO, &mistaken)
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
    fn read_identity(&mut self) -> Option<ConnectionEvent> {
        self.identity_due().filter(Duration::is_zero)?;
        let client = self.attached.as_ref()?.client.clone();
        self.identified = self.now;
        let timeout = self.connection.settings.timing.timeout;
        let read = identity::read(&client, timeout);
        self.connection.note_read(&read);
        let before = self.connection.cluster()?.uid;
        let reason = identity::reason_to_reconnect(before, &read.ok()?)?;
        self.disconnect(Duration::ZERO, &reason)
    }

    fn connect_or_probe(&mut self) -> Option<ConnectionEvent> {
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
            Due::Wait(_) => None,
        }
    }

    /// New credentials for the same server are used from the next request on; another server needs a new
    /// connection, as it may be another cluster.
    fn check_credentials(&mut self) -> Option<ConnectionEvent> {
        let attached = self.attached.as_mut()?;
        let config = match &self.source {
            CredentialSource::Local(_) => Ok(attached.client.config()),
            CredentialSource::Offered => self.connection.offered()?,
        };
        match config {
            Err(error) => {
                let retry = self.connection.settings.timing.retry;
                self.disconnect(retry, &error.to_string())
            }
            Ok(config) if config == attached.config => None,
            Ok(config) if !same_server(&attached.config, &config) => {
                self.disconnect(Duration::ZERO, "the kubeconfig has another server or CA")
            }
            Ok(config) if matches!(self.source, CredentialSource::Local(_)) => {
                // The client uses them already.
                attached.config = config;
                None
            }
            Ok(config) => {
                if let Err(error) = attached.swap(config) {
                    log_kept(self.connection.name(), &error);
                }
                None
            }
        }
    }

    fn connect(&mut self) -> Option<ConnectionEvent> {
        let client = match &self.source {
            CredentialSource::Local(make) => make(self.connection.requests.clone()),
            CredentialSource::Offered => {
                self.connection.offered()?.and_then(|config| self.client(config))
            }
        };
        let started = self.now;
        let connected = client.and_then(|client| self.attach(client));
        self.now = Instant::now();
        match connected {
            Ok((attached, cluster)) => self.connected(attached, cluster, self.now - started),
            Err(error) => {
                self.connect_failed(&error);
                None
            }
        }
    }

    fn client(&self, config: ClusterConfig) -> Result<Client> {
        let settings = &self.connection.settings;
        let timing = client::Timeouts::with_request(settings.request);
        let reload = match settings.reload.clone() {
            Some(reload) => {
                let of = config.clone();
                Reload::WhenRefused(Box::new(move || of_same_server(reload()?, &of)))
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
            .text_within(PROBE_PATH, settings.timing.timeout)
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

    fn connected(
        &mut self,
        attached: Attached,
        cluster: ClusterRecord,
        time: Duration,
    ) -> Option<ConnectionEvent> {
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
        Some(ConnectionEvent::Connected)
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

    fn probe(&mut self) -> Option<ConnectionEvent> {
        let client = self.attached.as_ref()?.client.clone();
        let result = self.probe_path(&client);
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
            return None;
        };
        let news = self.backoff.failed(&error, self.now, 0.0).should_log;
        if verdict.unauthorized || verdict.too_many {
            return self.report_disconnected(&error.to_string());
        }
        if news {
            log::warn!(remote, error:% = error, failures; "probe failed");
        }
        None
    }

    /// Ends the session and reconnects after `retry`.
    fn disconnect(&mut self, retry: Duration, reason: &str) -> Option<ConnectionEvent> {
        self.connection.state().schedule.disconnected(self.now + retry);
        self.report_disconnected(reason)
    }

    /// Ends the session, which the schedule has ended already.
    fn report_disconnected(&mut self, reason: &str) -> Option<ConnectionEvent> {
        self.end()?;
        self.connection.state().health.disconnected(self.now, reason);
        log::warn!(remote = self.connection.name(), reason; "disconnected");
        Some(ConnectionEvent::Disconnected)
    }

    /// Readers first see that the session is gone; then its requests are aborted.
    fn end(&mut self) -> Option<()> {
        self.attached = None;
        let session = self.connection.state().session.take()?;
        session.stop.raise();
        session.client.close();
        Some(())
    }
}
