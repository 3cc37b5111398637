//! The thread that keeps one cluster connected.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use shared::{
    backoff::Backoff,
    client::{self, Client, Reload},
    config::ClusterConfig,
    error::{Error, Result},
};

use super::{
    attached::{Attached, same_server},
    event::{ConnectionEvent, Notifier},
    handle::{ClusterSession, Connection, CredentialOffer, CredentialSource},
    identity::{self, ClusterIdentity},
    schedule::{Due, ProbeOutcome, soonest},
};

/// The longest sleep in one piece: whoever asks whether this thread lives hears of it this often.
const SLICE: Duration = shared::stop::Stop::SLICE;

/// Does what the schedule says is due; everything that takes time happens here, without a lock.
pub(super) struct Supervisor {
    connection: Arc<Connection>,
    source: CredentialSource,
    notifier: Notifier,
    random: fn() -> f64,
    /// While there is a connection.
    link: Option<Attached>,
    /// The uid of kube-system that was seen first, or accepted.
    remembered: Option<String>,
    told: Backoff,
    /// When the last thing happened.
    now: Instant,
}

impl Supervisor {
    pub(super) fn new(
        connection: Arc<Connection>,
        source: CredentialSource,
        notifier: Notifier,
        random: fn() -> f64,
    ) -> Self {
        let told = Backoff::new(Duration::ZERO);
        let (link, now) = (None, Instant::now());
        let remembered = connection.settings.remembered.clone();
        Self { connection, source, notifier, random, link, remembered, told, now }
    }

    pub(super) fn run(mut self) {
        let stop = self.connection.stop.clone();
        loop {
            let seen = stop.wakes();
            let wait = self.run_once().min(SLICE);
            if stop.wait_for_change(seen, self.now + wait) {
                break;
            }
        }
        self.end();
    }

    /// Does the one thing that is due; returns how long nothing will be.
    pub(super) fn run_once(&mut self) -> Duration {
        self.now = Instant::now();
        self.connection.state().beat = Some(self.now);
        let happened = self
            .check_credentials()
            .or_else(|| self.check_identity())
            .or_else(|| self.connect_or_probe());
        let state = self.connection.state();
        let (due, success) = (state.schedule.due(self.now), state.schedule.last_success());
        let awaited = matches!(
            (&self.source, &state.offer),
            (CredentialSource::Offered, CredentialOffer::Awaited)
        );
        drop(state);
        self.notifier.notify(happened, success, self.now);
        let schedule = match due {
            Due::Wait(wait) => Some(wait),
            _ => (!awaited).then_some(Duration::ZERO),
        };
        let waits = schedule.into_iter().chain(self.notifier.next(success, self.now));
        soonest(waits, self.connection.settings.timing.interval)
    }

    /// Connects anew where another cluster seems to have answered: it has to say who it is.
    fn check_identity(&mut self) -> Option<ConnectionEvent> {
        let mistaken = self.connection.state().mistaken.take()?;
        self.disconnect(Duration::ZERO, &mistaken)
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

    /// Other credentials for the same server are used from the next request on; another server is
    /// connected anew, as it may be another cluster.
    fn check_credentials(&mut self) -> Option<ConnectionEvent> {
        let link = self.link.as_mut()?;
        let config = match &self.source {
            CredentialSource::Own(_) => Ok(link.client.config()),
            CredentialSource::Offered => self.connection.offered()?,
        };
        match config {
            Err(error) => {
                let retry = self.connection.settings.timing.retry;
                self.disconnect(retry, &error.to_string())
            }
            Ok(config) if config == link.config => None,
            Ok(config) if !same_server(&link.config, &config) => {
                self.disconnect(Duration::ZERO, "it has another server or authority")
            }
            Ok(config) if matches!(self.source, CredentialSource::Own(_)) => {
                // Its client uses them already.
                link.config = config;
                None
            }
            Ok(config) => {
                if let Err(error) = link.swap(config) {
                    let name = self.connection.name();
                    log::warn!("keeping the current credentials of cluster {name}: {error}");
                }
                None
            }
        }
    }

    fn connect(&mut self) -> Option<ConnectionEvent> {
        let client = match &self.source {
            CredentialSource::Own(make) => make(self.connection.requests.clone()),
            CredentialSource::Offered => {
                self.connection.offered()?.and_then(|config| self.client(config))
            }
        };
        let started = self.now;
        let connected = client.and_then(|client| self.link(client));
        self.now = Instant::now();
        match connected {
            Ok((link, identity)) => self.connected(link, identity, self.now - started),
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
            Some(reload) => Reload::WhenRefused(Box::new(move || reload())),
            None => Reload::Never,
        };
        let whose = format!("cluster {}", settings.name);
        Client::counting(&whose, config, reload, timing, self.connection.requests.clone())
    }

    /// Finds out who answers on `client`, and the best way there.
    fn link(&mut self, client: Client) -> Result<(Attached, ClusterIdentity)> {
        let config = client.config();
        let mut link = Attached { client, config, inside: None };
        self.reach(&link.client)?;
        let said = identity::read(&link.client)?;
        let settings = &self.connection.settings;
        if let (CredentialSource::Offered, Some(pod)) = (&self.source, &settings.pod)
            && pod.is_on(&link.client)?
            // A pod without a service account has no way from inside, and needs none.
            && let Ok(inside) = (pod.in_cluster)()
        {
            link.inside = Some(inside);
            link.swap(link.config.clone())?;
            self.reach(&link.client)?;
        }
        let identity = identity::compare(said, &mut self.remembered, &settings.accepted);
        Ok((link, identity))
    }

    /// Asks for the probe's path. 403 is an answer too: it takes rights to read some paths.
    fn reach(&self, client: &Client) -> Result<()> {
        let settings = &self.connection.settings;
        let path = &settings.probe_path;
        let what = |why: String| format!("cluster {} is not reachable: {why}", settings.name);
        let (code, _) = client
            .text_within(path, settings.timing.timeout)
            .map_err(|error| Error::Unreachable(what(error.to_string())))?;
        let message = what(format!("get {path}: {code}"));
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
        link: Attached,
        identity: ClusterIdentity,
        time: Duration,
    ) -> Option<ConnectionEvent> {
        let connection = &self.connection;
        let name = connection.name();
        let failures = self.told.succeeded();
        match failures {
            0 => log::info!("connected to cluster {name} in {time:.0?}"),
            _ => log::info!("connected to cluster {name} in {time:.0?}, after {failures} failures"),
        }
        match &identity {
            ClusterIdentity::Known(uid) => log::debug!("cluster {name} is {uid}"),
            ClusterIdentity::Unknown(why) => {
                log::warn!("the identity of cluster {name} is unknown: {why}")
            }
            ClusterIdentity::Changed { was, now } => log::error!(
                "cluster {name} was replaced: the uid of kube-system was {was} and is {now}"
            ),
        }
        let mut state = connection.state();
        let number = state.health.connected(self.now);
        let (client, stop) = (link.client.clone(), connection.stop.child());
        state.identity = identity.clone();
        state.session = Some(ClusterSession { number, client, identity, stop });
        state.schedule.connected(self.now);
        drop(state);
        self.link = Some(link);
        Some(ConnectionEvent::Connected)
    }

    fn connect_failed(&mut self, error: &Error) {
        let name = self.connection.name();
        let mut state = self.connection.state();
        state.schedule.connect_failed(
            matches!(error, Error::Unauthorized(_)),
            self.now,
            (self.random)(),
        );
        state.health.failed(error);
        drop(state);
        if self.told.failed(error, self.now, 0.0).should_log {
            log::warn!("no connection to cluster {name}: {error}");
        } else {
            log::debug!("no connection to cluster {name}: {error}");
        }
    }

    fn probe(&mut self) -> Option<ConnectionEvent> {
        let client = self.link.as_ref()?.client.clone();
        let result = self.reach(&client);
        self.now = Instant::now();
        let outcome = match &result {
            Ok(()) => ProbeOutcome::Success,
            Err(Error::Unauthorized(_)) => ProbeOutcome::Unauthorized,
            Err(_) => ProbeOutcome::Failure,
        };
        let mut state = self.connection.state();
        let verdict = state.schedule.probed(outcome, self.now, (self.random)());
        state.health.probed(&result);
        drop(state);
        let name = self.connection.name();
        let Err(error) = result else {
            let failures = self.told.succeeded();
            if failures > 0 {
                log::info!("cluster {name} answers again after {failures} failures");
            }
            return None;
        };
        let tell = self.told.failed(&error, self.now, 0.0).should_log;
        if verdict.unauthorized || verdict.too_many {
            return self.report_disconnected(&error.to_string());
        }
        if tell {
            log::warn!("a probe failed: {error}");
        }
        None
    }

    /// Ends the connection and tries again after `retry`.
    fn disconnect(&mut self, retry: Duration, reason: &str) -> Option<ConnectionEvent> {
        self.connection.state().schedule.disconnected(self.now + retry);
        self.report_disconnected(reason)
    }

    /// The schedule says that there is no connection any more.
    fn report_disconnected(&mut self, reason: &str) -> Option<ConnectionEvent> {
        self.end()?;
        self.connection.state().health.disconnected(self.now, reason);
        log::warn!("disconnected from cluster {}: {reason}", self.connection.name());
        Some(ConnectionEvent::Disconnected)
    }

    /// Whoever reads sees the end first, and is then cut off.
    fn end(&mut self) -> Option<()> {
        self.link = None;
        let session = self.connection.state().session.take()?;
        session.stop.raise();
        session.client.close();
        Some(())
    }
}
