//! Hub credentials: the client follows the Secret or the file, and keeps its credentials while a new
//! version is invalid.

use std::{
    mem,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use apiclient::{
    api::Secret,
    backoff::Backoff,
    client::{Client, Reload, RequestMetrics, Timeouts},
    error::{Error, Result},
    lock::lock,
    log_object,
    reflector::{Lookup, Store},
    resource::{SECRETS, Target},
    stop::Stop,
    watch::Selection,
};
use kubeconfig::{Reach, config::ClusterConfig};
use log::Level;

use crate::settings::HubCredentials;

/// The longest wait between two attempts to read a file that is not there yet, whatever the period.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The client for the hub, as its credentials come and go.
pub(crate) struct HubClient {
    source: Arc<Source>,
    timeouts: Timeouts,
    max_wait: Duration,
    /// `None` until there are credentials.
    client: Mutex<Option<Client>>,
    /// Credentials read, valid and invalid, except for those that the present client read itself.
    reads: Mutex<(u64, u64)>,
    secret: Store<SecretState>,
    /// Requests of all clients so far.
    pub(crate) requests: RequestMetrics,
}

/// The place of the hub kubeconfig.
enum Source {
    File(PathBuf, Reach),
    Secret { cluster: Client, namespace: String, name: String },
}

/// A version of the Secret.
#[derive(Clone, PartialEq)]
struct SecretState {
    version: Option<String>,
    /// `None` while it is being deleted. It counts as gone then, as with the Go sidecar
    /// (klusterlet-addon-lease-controller controllers/lease_controller.go:131-136).
    config: Option<Result<ClusterConfig>>,
}

impl HubClient {
    /// The server's name in messages.
    pub(crate) const NAME: &str = "the hub";

    /// Starts without credentials; the hub's Lease is renewed once per `period`, and a request has
    /// `timeout`. A Secret is in the `managed` cluster.
    ///
    /// # Errors
    /// `BadConfig` for a Secret without a managed cluster.
    pub(crate) fn new(
        credentials: &HubCredentials,
        managed: Option<&Client>,
        timeout: Duration,
        period: Duration,
    ) -> Result<Self> {
        let source = match (credentials.clone(), managed) {
            (HubCredentials::File(path, reach), _) => Source::File(path, reach),
            (HubCredentials::Secret { namespace, name }, Some(cluster)) => {
                Source::Secret { cluster: cluster.clone(), namespace, name }
            }
            (HubCredentials::Secret { .. }, None) => {
                return Err(Error::bad_config("a Secret needs a managed cluster"));
            }
        };
        Ok(Self {
            source: Arc::new(source),
            timeouts: Timeouts::with_request(timeout),
            max_wait: period.min(MAX_WAIT),
            client: Mutex::default(),
            reads: Mutex::default(),
            secret: Store::new(1),
            requests: RequestMetrics::default(),
        })
    }

    /// The client; `None` while there are no credentials.
    pub(crate) fn client(&self) -> Option<Client> {
        lock(&self.client).clone()
    }

    /// The number of times that credentials were read: with success, and in vain.
    pub(crate) fn reads(&self) -> (u64, u64) {
        let current = self.client().map_or((0, 0), |client| client.reloads());
        let before = *lock(&self.reads);
        (before.0 + current.0, before.1 + current.1)
    }

    /// Why the Secret may have changed unseen.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.secret.last_error()
    }

    /// Keeps the credentials up to date until `stop` is raised.
    pub(crate) fn run(&self, stop: &Stop) {
        match &*self.source {
            Source::File(..) => self.wait_for_file(stop),
            Source::Secret { cluster, namespace, name } => {
                self.follow_secret(cluster, &SECRETS.object(namespace, name), stop);
            }
        }
    }

    /// Returns after the first valid credentials: the file may appear later than this process, and from
    /// then on the client itself reads it again.
    fn wait_for_file(&self, stop: &Stop) {
        let mut backoff = Backoff::new(self.max_wait);
        while let Err(error) = self.apply(self.source.load()) {
            let retry = backoff.failed(&error, Instant::now(), fastrand::f64());
            if retry.should_log {
                self.log_unusable(&error);
            }
            if stop.wait(retry.wait) {
                return;
            }
        }
        stop.wake();
    }

    fn follow_secret(&self, cluster: &Client, target: &Target<'_>, stop: &Stop) {
        let mut waiting = false;
        let name = target.name.unwrap_or_default();
        self.secret.run(cluster, &Selection::all(*target), stop, &mut secret_state, &mut || {
            let config = match self.secret.get(name) {
                Lookup::Object(secret) => secret.config,
                Lookup::Absent => None,
                Lookup::Invalid | Lookup::Unknown => return,
            };
            let was_waiting = mem::replace(&mut waiting, config.is_none());
            match config.map(|config| self.apply(config)) {
                Some(Ok(())) => {}
                Some(Err(error)) => self.log_unusable(&error),
                None if self.drop_client() => log_object!(
                    Level::Warn, target;
                    "the Secret was deleted: renewals stop until it is back"
                ),
                None if !was_waiting => log_object!(Level::Info, target; "waiting for the Secret"),
                None => {}
            }
            stop.wake();
        });
    }

    /// Uses `config` from now on.
    fn apply(&self, config: Result<ClusterConfig>) -> Result<()> {
        let current = self.client();
        let first = current.is_none();
        let applied = config.and_then(|config| match current {
            Some(client) => client.swap(config).map(drop),
            None => {
                let (reload, requests) = (self.source.reload(), self.requests.clone());
                let new = Client::counting(Self::NAME, config, reload, self.timeouts, requests)?;
                *lock(&self.client) = Some(new);
                Ok(())
            }
        });
        self.count(if applied.is_ok() { (1, 0) } else { (0, 1) });
        if applied.is_ok() && first {
            log::info!(server = Self::NAME; "loaded the credentials");
        }
        applied
    }

    /// Drops the client; returns whether there was one.
    fn drop_client(&self) -> bool {
        let client = lock(&self.client).take();
        self.count(client.as_ref().map_or((0, 0), Client::reloads));
        client.is_some()
    }

    fn count(&self, (good, bad): (u64, u64)) {
        let mut reads = lock(&self.reads);
        *reads = (reads.0 + good, reads.1 + bad);
    }

    fn log_unusable(&self, error: &Error) {
        match self.client() {
            Some(_) => {
                log::warn!(server = Self::NAME, error:% = error; "keeping the current credentials")
            }
            None => log::warn!(server = Self::NAME, error:% = error; "no valid credentials yet"),
        }
    }
}

impl Source {
    fn load(&self) -> Result<ClusterConfig> {
        match self {
            Self::File(path, reach) => Ok(kubeconfig::from_file(path, *reach)?),
            Self::Secret { cluster, namespace, name } => {
                config_of(cluster.get_typed(&SECRETS.object(namespace, name))?)
            }
        }
    }

    /// The server may refuse a token before the watch brings its successor.
    fn reload(self: &Arc<Self>) -> Reload {
        let source = self.clone();
        let load = Box::new(move || source.load());
        match &**self {
            Self::File(..) => Reload::FromFiles(load),
            Self::Secret { .. } => Reload::WhenRefused(load),
        }
    }
}

fn secret_state(secret: Secret) -> Option<SecretState> {
    let version = secret.metadata.resource_version.clone();
    let is_deleted = secret.metadata.deletion_timestamp.is_some();
    let config = (!is_deleted).then(|| config_of(secret));
    Some(SecretState { version, config })
}

fn config_of(secret: Secret) -> Result<ClusterConfig> {
    let name = secret.name();
    Ok(kubeconfig::from_secret(&name, &secret.into_data()?)?)
}
