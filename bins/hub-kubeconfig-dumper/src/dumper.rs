//! Reads the Secret, updates its files in the directory, and keeps the status of the last pass.

use std::{
    fmt,
    sync::{Mutex, MutexGuard},
    time::{Instant, SystemTime},
};

use apiclient::{
    client::{Client, Timeouts},
    error::{Error, Result},
    lock::lock,
    log_object,
    reflector::{Lookup, Store},
    resource::{SECRETS, Target},
    stop::Stop,
};
use hub_kubeconfig_dumper::{PublishOutcome, Publisher, flatten};
use kubeconfig::secret;
use log::Level;
use serde_json::Value;
use sidecar::{client::own_cluster, flags::Flags};

use crate::settings::Settings;

pub(crate) struct Dumper {
    pub(crate) settings: Settings,
    pub(crate) client: Client,
    pub(crate) stop: Stop,
    /// The resourceVersion of the Secret, from the watch.
    pub(crate) versions: Store<String>,
    pub(crate) started: SystemTime,
    publisher: Publisher,
    status: Mutex<DumpStatus>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum DumpOutcome {
    Current,
    /// The Secret is missing or has no files: wait for a change.
    Unusable(Error),
    /// The Secret cannot be read; the files stay.
    Unread(Error),
    Unwritten(Error),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DumpStatus {
    pub(crate) beat: Option<Instant>,
    /// When the files last matched the Secret.
    pub(crate) succeeded: Option<SystemTime>,
    pub(crate) failures: u32,
    /// Why the files do not match the Secret.
    pub(crate) reason: Option<String>,
    /// How many valid and invalid Secrets were read.
    pub(crate) reads: (u64, u64),
    pub(crate) expires: Option<SystemTime>,
}

impl Dumper {
    pub(crate) fn new(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<Self> {
        let reason = Some("it has not been read yet".into());
        Ok(Self {
            client: own_cluster(flags, Timeouts::REQUEST)?,
            publisher: Publisher { path: settings.directory.clone(), modes: settings.modes },
            settings: settings.clone(),
            stop: stop.clone(),
            versions: Store::new(1),
            started: SystemTime::now(),
            status: Mutex::new(DumpStatus { reason, ..DumpStatus::default() }),
        })
    }

    pub(crate) fn target(&self) -> Target<'_> {
        SECRETS.object(&self.settings.namespace, &self.settings.secret)
    }

    /// Returns whether the watch has delivered another version than `read` since `revision`.
    pub(crate) fn has_changed(&self, revision: u64, read: &Lookup<String>) -> bool {
        let seen = self.versions.get(&self.settings.secret);
        let is_known = matches!(seen, Lookup::Absent | Lookup::Object(_));
        self.versions.revision() != revision && is_known && seen != *read
    }

    /// Reads the Secret and updates the files; also returns the version of the Secret.
    pub(crate) fn look(&self) -> (Lookup<String>, DumpOutcome) {
        match self.client.get(&self.target()) {
            Ok(secret) => {
                let version = secret["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                (Lookup::Object(version.to_owned()), self.publish(&secret))
            }
            Err(Error::NotFound(_)) => {
                let absent = Error::NotFound("it does not exist".into());
                (Lookup::Absent, DumpOutcome::Unusable(absent))
            }
            Err(error) => (Lookup::Unknown, DumpOutcome::Unread(error)),
        }
    }

    fn publish(&self, secret: &Value) -> DumpOutcome {
        let name = format!("{}/{}", self.settings.namespace, self.settings.secret);
        let flattened = self.settings.flattened.as_deref();
        let data = secret::data(secret).map_err(Error::from);
        let content = match data.and_then(|data| flatten::content(&name, data, flattened)) {
            Ok(content) => content,
            Err(error) => {
                self.status().reads.1 += 1;
                return DumpOutcome::Unusable(error);
            }
        };
        self.status().reads.0 += 1;
        match self.publisher.publish(&content, SystemTime::now(), &self.stop) {
            Ok(published) => {
                if published == PublishOutcome::Changed {
                    let (count, path) = (content.files.len(), self.settings.directory.display());
                    let target = self.target();
                    log_object!(
                        Level::Info, target, path:% = path, files = count;
                        "wrote the files"
                    );
                }
                if !content.complete {
                    return DumpOutcome::Unusable(Error::bad_config("it has no kubeconfig"));
                }
                self.status().expires = content.expires;
                DumpOutcome::Current
            }
            Err(error) => DumpOutcome::Unwritten(error),
        }
    }

    /// Records an outcome; returns whether it differs from the last one.
    pub(crate) fn record(&self, outcome: &DumpOutcome) -> bool {
        let mut status = self.status();
        let (failures, reason) = match outcome {
            DumpOutcome::Current => (0, None),
            DumpOutcome::Unusable(error) => (0, Some(error.to_string())),
            // The files are still valid.
            DumpOutcome::Unread(_) => (status.failures + 1, status.reason.clone()),
            DumpOutcome::Unwritten(error) => (status.failures + 1, Some(error.to_string())),
        };
        if *outcome == DumpOutcome::Current {
            status.succeeded = Some(SystemTime::now());
        }
        status.failures = failures;
        let before = std::mem::replace(&mut status.reason, reason);
        before != status.reason
    }

    /// The status; its guard is never held across I/O.
    pub(crate) fn status(&self) -> MutexGuard<'_, DumpStatus> {
        lock(&self.status)
    }
}

impl fmt::Display for Dumper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret {}/{}", self.settings.namespace, self.settings.secret)
    }
}
