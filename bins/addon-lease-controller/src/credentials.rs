//! Hub credentials, from a Secret or a file. A client keeps its credentials if a new version is invalid.

use std::{
    mem,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::{
    backoff::Backoff,
    client::{Client, Reload, Timeouts},
    error::{Error, Result},
    log_object,
    reflector::{Lookup, Store},
    resource::{SECRETS, Target},
    stop::Stop,
    watch::Selection,
};
use kubeconfig::{config::ClusterConfig, secret};
use log::Level;
use serde_json::Value;

use crate::{lease::LeaseCluster, settings::Settings};

/// The longest wait between two attempts to read a missing file.
const MAX_WAIT: Duration = Duration::from_secs(60);

pub(crate) struct HubClient {
    pub(crate) cluster: Arc<LeaseCluster>,
    pub(crate) secret: Store<SecretState>,
    source: Source,
    timeouts: Timeouts,
    max_wait: Duration,
}

#[derive(Clone)]
pub(crate) enum Source {
    File(PathBuf),
    /// The client of the Secret's cluster.
    Secret(Client, String, String),
}

/// The version of the Secret, and its configuration. `None` while the Secret is being deleted: like the Go sidecar, we
/// treat it as absent then (klusterlet-addon-lease-controller controllers/lease_controller.go:131-136).
type SecretState = (Option<String>, Option<Result<ClusterConfig>>);

impl HubClient {
    pub(crate) fn new(source: Source, settings: &Settings) -> Self {
        Self {
            cluster: Arc::new(LeaseCluster::hub()),
            secret: Store::new(1),
            source,
            timeouts: Timeouts::with_request(settings.request_timeout()),
            max_wait: settings.period.min(MAX_WAIT),
        }
    }

    pub(crate) fn run(&self, stop: &Stop) {
        match &self.source {
            Source::File(..) => self.wait_for_file(stop),
            Source::Secret(cluster, namespace, name) => {
                self.follow_secret(cluster, &SECRETS.object(namespace, name), stop);
            }
        }
    }

    /// Returns after the first valid credentials: the file may appear later than this process, and the client reloads it
    /// afterwards.
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
        let (mut seen, mut waiting) = (None, false);
        let name = target.name.unwrap_or_default();
        self.secret.run(cluster, &Selection::all(*target), stop, &mut secret_state, &mut || {
            // After a failed watch, the Secret is unchanged, but the client may have read newer credentials.
            let revision = Some(self.secret.revision());
            if mem::replace(&mut seen, revision) == revision {
                return;
            }
            let config = match self.secret.get(name) {
                Lookup::Object((_, config)) => config,
                Lookup::Absent => None,
                Lookup::Invalid | Lookup::Unknown => return,
            };
            let was_waiting = mem::replace(&mut waiting, config.is_none());
            match config.map(|config| self.apply(config)) {
                Some(Ok(())) => {}
                Some(Err(error)) => self.log_unusable(&error),
                None if self.cluster.set_client(None) => log_object!(
                    Level::Warn, target;
                    "the Secret was deleted: renewals stop until it is back"
                ),
                None if !was_waiting => log_object!(Level::Info, target; "waiting for the Secret"),
                None => {}
            }
            stop.wake();
        });
    }

    fn apply(&self, config: Result<ClusterConfig>) -> Result<()> {
        let LeaseCluster { name, requests, .. } = &*self.cluster;
        let current = self.cluster.client();
        let is_first = current.is_none();
        let applied = config.and_then(|config| match current {
            Some(client) => client.swap(config).map(drop),
            None => {
                let reload = self.source.reload();
                let new = Client::counting(name, config, reload, self.timeouts, requests.clone())?;
                self.cluster.set_client(Some(new));
                Ok(())
            }
        });
        requests.add_reload(applied.is_ok());
        if applied.is_ok() && is_first {
            log::info!(server = name; "loaded the credentials");
        }
        applied
    }

    fn log_unusable(&self, error: &Error) {
        let consequence = match self.cluster.client() {
            Some(_) => "keeping the current credentials",
            None => "no valid credentials yet",
        };
        log::warn!(server = self.cluster.name, error:% = error; "{consequence}");
    }
}

impl Source {
    fn load(&self) -> Result<ClusterConfig> {
        match self {
            Self::File(path) => Ok(kubeconfig::from_file(path)?),
            Self::Secret(cluster, namespace, name) => {
                config_of(&cluster.get(&SECRETS.object(namespace, name))?)
            }
        }
    }

    /// Reads the Secret after a 401: the server may refuse a token before the watch delivers the next one.
    fn reload(&self) -> Reload {
        let source = self.clone();
        let load = Box::new(move || source.load());
        match self {
            Self::File(..) => Reload::FromFiles(load),
            Self::Secret(..) => Reload::WhenRefused(load),
        }
    }
}

fn secret_state(secret: Value) -> Option<SecretState> {
    let metadata = &secret["metadata"];
    let version = metadata["resourceVersion"].as_str().map(str::to_owned);
    let is_deleted = metadata["deletionTimestamp"].is_string();
    Some((version, (!is_deleted).then(|| config_of(&secret))))
}

fn config_of(secret: &Value) -> Result<ClusterConfig> {
    let part = |key: &str| secret["metadata"][key].as_str().unwrap_or_default();
    let name = format!("{}/{}", part("namespace"), part("name"));
    Ok(kubeconfig::from_secret(&name, &secret::data(secret)?)?)
}
