//! The supervised connection of one cluster: connected, probed, dropped and restored by a thread of its
//! own, as Cluster API's clustercache does it; whoever reads never waits for that.

mod event;
mod files;
mod health;
mod identity;
mod schedule;
mod secret;
mod supervisor;
#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use shared::{
    client::{Client, RequestMetrics},
    config::ClusterConfig,
    error::{Error, Result},
    lock::lock,
    runtime,
    stop::Stop,
};

use self::{event::Teller, schedule::Machine, supervisor::Supervisor};
pub(crate) use self::{
    event::{ConnectionEvent, Consumer},
    files::follow as follow_files,
    health::Phase,
    identity::{Identity, Pod},
    schedule::Timing,
    secret::{access as secret_access, feed as feed_secret},
};

/// What there is to know of a cluster before it is connected.
pub(crate) struct Settings {
    /// Its name in messages and labels.
    pub(crate) name: String,
    /// When to connect and to probe.
    pub(crate) timing: Timing,
    /// A request other than a probe.
    pub(crate) request: Duration,
    /// What is asked for in a probe: every identity may read `/version`, but not `/`.
    pub(crate) probe_path: String,
    /// The uid of kube-system that it had before, where that is known.
    pub(crate) remembered: Option<String>,
    /// Identities of kube-system that may take the place of the one before.
    pub(crate) accepted: Vec<String>,
    /// Loads what is offered at once where a credential is refused; without it the next offer is awaited.
    pub(crate) reload: Option<Reload>,
    /// The pod of this program, if it is known.
    pub(crate) pod: Option<Arc<Pod>>,
}

/// Gives the credentials as they are now.
pub(crate) type Reload = Arc<dyn Fn() -> Result<ClusterConfig> + Send + Sync>;

/// Where a connection gets its client.
pub(crate) enum Source {
    /// The cluster that the program runs on: a client for it, which loads its credentials itself.
    Own(Box<dyn Fn(RequestMetrics) -> Result<Client> + Send>),
    /// Clients for what is passed to [`Connection::offer`].
    Offered,
}

/// A cluster with its connection; shared between the thread that supervises it and all who read.
pub(crate) struct Connection {
    settings: Settings,
    stop: Stop,
    state: Mutex<State>,
    /// Of all clients so far.
    requests: RequestMetrics,
}

/// One connection, from its beginning to its end.
#[derive(Clone)]
pub(crate) struct Session {
    /// Counts the connections of this cluster, from 1.
    pub(crate) number: u64,
    /// Of no use after its end: what runs on it is cut off, and nothing can begin.
    pub(crate) client: Client,
    /// The cluster that was found.
    pub(crate) identity: Identity,
    /// Raised at its end.
    pub(crate) stop: Stop,
}

/// Never locked while something is waited for.
struct State {
    machine: Machine,
    session: Option<Session>,
    offer: Offer,
    identity: Identity,
    /// Why the session is perhaps not with whom it began.
    mistaken: Option<String>,
    health: health::Record,
    /// When the thread that supervises it last came by.
    beat: Option<Instant>,
}

/// The credentials as they are now.
enum Offer {
    /// Nobody said anything yet.
    Awaited,
    /// What to use, and why a newer one can't be.
    Usable(Box<ClusterConfig>, Option<Error>),
    /// There are none.
    Refused(Error),
}

impl Connection {
    /// Begins to supervise a cluster, until `stop` is raised; consumers are not told of that.
    ///
    /// # Errors
    /// `BadConfig` when the system gives no thread.
    pub(crate) fn start(
        settings: Settings,
        source: Source,
        consumers: Vec<Consumer>,
        stop: &Stop,
    ) -> Result<Arc<Self>> {
        let connection = Self::new(settings, stop);
        let teller = Teller::new(consumers, Instant::now());
        let supervisor = Supervisor::new(connection.clone(), source, teller, fastrand::f64);
        runtime::spawn("connection", move || supervisor.run())?;
        Ok(connection)
    }

    fn new(settings: Settings, stop: &Stop) -> Arc<Self> {
        let state = State {
            machine: Machine::new(settings.timing),
            session: None,
            offer: Offer::Awaited,
            identity: Identity::Unknown("it was never connected".into()),
            mistaken: None,
            health: health::Record::new(Instant::now()),
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
    pub(crate) fn offer(&self, access: Result<ClusterConfig>) {
        if self.state().take(access, self.name()) {
            self.stop.wake();
        }
    }

    /// There are no credentials any more, for a `reason`: the connection ends until there are.
    pub(crate) fn withdraw(&self, reason: &str) {
        self.state().offer = Offer::Refused(Error::NotFound(reason.to_owned()));
        self.stop.wake();
    }

    /// The connection that there is.
    ///
    /// # Errors
    /// `Unreachable` at once when there is none.
    pub(crate) fn session(&self) -> Result<Session> {
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
        if self.state().machine.doubt(Instant::now()) {
            self.stop.wake();
        }
    }

    /// Whether the cluster of `session` is the one that answers now: to be asked after a lost connection,
    /// before anything is believed. If it is not, the connection ends.
    ///
    /// # Errors
    /// As the server says.
    pub(crate) fn is_still_there(&self, session: &Session) -> Result<bool> {
        let Identity::Known(uid) = &session.identity else { return Ok(true) };
        let mistaken = match identity::read(&session.client)? {
            Ok(now) if now == *uid => return Ok(true),
            Ok(now) => format!("another cluster answered, with the uid {now} of kube-system"),
            Err(why) => format!("it does not say any more which cluster it is: {why}"),
        };
        self.state().mistaken = Some(mistaken);
        self.stop.wake();
        Ok(false)
    }

    /// The cluster that was found by the last connection.
    pub(crate) fn identity(&self) -> Identity {
        self.state().identity.clone()
    }

    /// The credentials as they are now; `None` while they are awaited.
    fn offered(&self) -> Option<Result<ClusterConfig>> {
        match &self.state().offer {
            Offer::Awaited => None,
            Offer::Usable(access, _) => Some(Ok((**access).clone())),
            Offer::Refused(error) => Some(Err(error.clone())),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// The session, unless the end of all was asked for.
    fn session(&self) -> Option<&Session> {
        self.session.as_ref().filter(|session| !session.stop.raised())
    }

    /// Takes note of an offer; whether that is worth a look.
    fn take(&mut self, access: Result<ClusterConfig>, name: &str) -> bool {
        match (access, &mut self.offer) {
            (Ok(new), Offer::Usable(old, trouble)) if **old == new => {
                *trouble = None;
                false
            }
            (Ok(new), _) => {
                self.offer = Offer::Usable(Box::new(new), None);
                self.machine.offered();
                true
            }
            (Err(error), Offer::Usable(_, trouble)) => {
                if trouble.as_ref() != Some(&error) {
                    log::warn!("the credentials of cluster {name} in use stay: {error}");
                }
                *trouble = Some(error);
                false
            }
            (Err(error), _) => {
                self.offer = Offer::Refused(error);
                true
            }
        }
    }
}
