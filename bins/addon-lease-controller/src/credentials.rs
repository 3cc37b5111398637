//! Hub credentials: the client follows the Secret or the file, and keeps its credentials while a new
//! version is invalid.

use std::{
    mem,
    ops::ControlFlow,
    path::Path,
    sync::Mutex,
    time::{Duration, Instant},
};

use apiclient::{
    backoff::Backoff,
    client::{Client, Reload, RequestMetrics, Timeouts},
    error::{Error, Result},
    lock::lock,
    log_object,
    resource::SECRETS,
    stop::Stop,
    watch::{self, LastError},
};
use kubeconfig::{self, Reach, config::ClusterConfig};
use log::Level;
use serde_json::Value;

use crate::settings::HubCredentials;

/// The longest wait between two attempts to read a file that is not there yet, whatever the period.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The client for the hub, as its credentials come and go.
pub(crate) struct HubClient {
    timeouts: Timeouts,
    /// The longest wait between two attempts to read a file that is not there yet.
    longest_wait: Duration,
    /// `None` until there are credentials.
    client: Mutex<Option<Client>>,
    /// Credentials read, valid and invalid, except for those that the present client read itself.
    reads: Mutex<(u64, u64)>,
    /// Requests of all clients so far.
    pub(crate) requests: RequestMetrics,
}

impl HubClient {
    /// The server's name in messages.
    pub(crate) const NAME: &str = "the hub";

    /// Starts without credentials; the hub's Lease is renewed once per `period`, and a request has
    /// `timeout`.
    pub(crate) fn new(timeout: Duration, period: Duration) -> Self {
        Self {
            timeouts: Timeouts::with_request(timeout),
            longest_wait: period.min(LONGEST_WAIT),
            client: Mutex::default(),
            reads: Mutex::default(),
            requests: RequestMetrics::default(),
        }
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

    /// Keeps the credentials up to date with `source` until `stop` is raised. A Secret is in the `managed`
    /// cluster.
    pub(crate) fn follow(
        &self,
        source: &HubCredentials,
        managed: Option<&Client>,
        stop: &Stop,
        last_error: &LastError,
    ) {
        match (source, managed) {
            (HubCredentials::File(path, reach), _) => self.follow_file(path, *reach, stop),
            (HubCredentials::Secret { namespace, name }, Some(client)) => {
                self.follow_secret(client, (namespace, name), stop, last_error);
            }
            // Settings require the managed cluster whenever there is a Secret.
            (HubCredentials::Secret { .. }, None) => {}
        }
    }

    /// Returns after the first valid credentials: the file may appear later than this process, and from
    /// then on the client itself reads it again.
    fn follow_file(&self, path: &Path, reach: Reach, stop: &Stop) {
        let mut backoff = Backoff::new(self.longest_wait);
        loop {
            let file = path.to_owned();
            let reload =
                Reload::FromFiles(Box::new(move || Ok(kubeconfig::from_file(&file, reach)?)));
            let Err(error) =
                self.apply(kubeconfig::from_file(path, reach).map_err(Error::from), reload)
            else {
                break;
            };
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

    fn follow_secret(
        &self,
        managed: &Client,
        (namespace, name): (&str, &str),
        stop: &Stop,
        last_error: &LastError,
    ) {
        let (mut absent, mut reported) = (false, Value::Null);
        let target = SECRETS.object(namespace, name);
        watch::follow(managed, &target, stop, last_error, &mut |secret| {
            // A Secret that is being deleted counts as gone, as with the Go sidecar
            // (klusterlet-addon-lease-controller controllers/lease_controller.go:131-136).
            let living = |secret: &Value| secret["metadata"]["deletionTimestamp"].is_null();
            let secret = secret.filter(living);
            let was_absent = mem::replace(&mut absent, secret.is_none());
            match secret {
                Some(secret) => {
                    let reload = reload_from_secret(managed, namespace, name);
                    self.apply_secret(secret, reload, &mut reported);
                }
                None if self.drop_client() => {
                    log_object!(
                        Level::Warn, target;
                        "the Secret was deleted: renewals stop until it is back"
                    );
                }
                None if !was_absent => log_object!(Level::Info, target; "waiting for the Secret"),
                None => {}
            }
            stop.wake();
            ControlFlow::Continue(())
        });
    }

    /// Uses `secret` from now on; an invalid version of it is `reported` once.
    fn apply_secret(&self, secret: Value, reload: Reload, reported: &mut Value) {
        // A list brings the same Secret again: that is no news.
        let version = secret["metadata"]["resourceVersion"].clone();
        let config = kubeconfig::from_secret_object(&secret).map_err(Error::from);
        // A large Secret makes room for its kubeconfig.
        drop(secret);
        if let Err(error) = self.apply(config, reload)
            && mem::replace(reported, version.clone()) != version
        {
            self.log_unusable(&error);
        }
    }

    /// Uses `config` from now on; the first client reads credentials again with `reload`.
    fn apply(&self, config: Result<ClusterConfig>, reload: Reload) -> Result<()> {
        let current = self.client();
        let first = current.is_none();
        let applied = config.and_then(|config| match current {
            Some(client) => client.swap(config).map(drop),
            None => {
                let requests = self.requests.clone();
                let new = Client::counting(Self::NAME, config, reload, self.timeouts, requests)?;
                *lock(&self.client) = Some(new);
                Ok(())
            }
        });
        self.count_read(applied.is_ok());
        if applied.is_ok() && first {
            log::info!(server = Self::NAME; "loaded the credentials");
        }
        applied
    }

    fn count_read(&self, good: bool) {
        let mut reads = lock(&self.reads);
        if good { reads.0 += 1 } else { reads.1 += 1 }
    }

    /// Drops the client; returns whether there was one.
    fn drop_client(&self) -> bool {
        let Some(client) = lock(&self.client).take() else { return false };
        let ((good, bad), mut reads) = (client.reloads(), lock(&self.reads));
        *reads = (reads.0 + good, reads.1 + bad);
        true
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

/// The server may refuse a token before the watch brings its successor.
fn reload_from_secret(managed: &Client, namespace: &str, name: &str) -> Reload {
    let (client, namespace, name) = (managed.clone(), namespace.to_owned(), name.to_owned());
    let read = move || {
        let secret = client.get(&SECRETS.object(&namespace, &name))?;
        Ok(kubeconfig::from_secret_object(&secret)?)
    };
    Reload::WhenRefused(Box::new(read))
}
