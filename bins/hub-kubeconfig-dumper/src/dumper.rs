//! One look at the Secret and what follows from it, and what is known of the last one.

use std::{
    fmt,
    sync::{Mutex, MutexGuard},
    time::{Instant, SystemTime},
};

use log::Level;
use serde_json::Value;
use shared::{
    client::{Client, Timeouts},
    error::{Error, Result},
    flags::Flags,
    lock::lock,
    log_object,
    resource::{SECRETS, Target},
    stop::Stop,
    watch::LastError,
};

use crate::{
    content::Content,
    publisher::{PublishOutcome, Publisher},
    settings::Settings,
};

/// Why there is nothing for files without a Secret.
pub(crate) const ABSENT: &str = "it does not exist";

/// The parts of the running program, for all threads.
pub(crate) struct Dumper {
    pub(crate) settings: Settings,
    pub(crate) client: Client,
    pub(crate) stop: Stop,
    /// Why the Secret may have changed unseen.
    pub(crate) last_error: LastError,
    pub(crate) started: SystemTime,
    publisher: Publisher,
    status: Mutex<DumpStatus>,
}

/// What a look came to.
#[derive(Debug, PartialEq)]
pub(crate) enum DumpOutcome {
    /// The files are what the Secret says.
    Current,
    /// There is no Secret.
    Absent,
    /// The Secret has nothing for files, for this reason: only a change of it helps.
    Waiting(String),
    /// The Secret could not be read; its last known state is kept.
    Unread(Error),
    /// The files could not be written.
    Unwritten(Error),
}

/// For the endpoint.
#[derive(Clone, Debug)]
pub(crate) struct DumpStatus {
    pub(crate) beat: Option<Instant>,
    /// When the files were last known to be what the Secret says.
    pub(crate) succeeded: Option<SystemTime>,
    pub(crate) failures: u32,
    /// Why the files are not what the Secret says.
    pub(crate) reason: Option<String>,
    /// Secrets that could be used and that could not.
    pub(crate) reads: (u64, u64),
    /// Of the certificate in the files.
    pub(crate) expires: Option<SystemTime>,
}

impl Dumper {
    /// Puts the parts together; nothing runs yet.
    ///
    /// # Errors
    /// `BadConfig` when the kubeconfig of the cluster cannot be used.
    pub(crate) fn new(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<Self> {
        let status = DumpStatus {
            beat: None,
            succeeded: None,
            failures: 0,
            reason: Some("it has not been read yet".into()),
            reads: (0, 0),
            expires: None,
        };
        Ok(Self {
            client: Client::of_own_cluster(flags, Timeouts::REQUEST)?,
            publisher: Publisher { path: settings.directory.clone(), modes: settings.modes },
            settings: settings.clone(),
            stop: stop.clone(),
            last_error: LastError::default(),
            started: SystemTime::now(),
            status: Mutex::new(status),
        })
    }

    pub(crate) fn target(&self) -> Target<'_> {
        SECRETS.object(&self.settings.namespace, &self.settings.secret)
    }

    /// Reads the Secret and makes the files follow; also says which version of it was read.
    pub(crate) fn look(&self) -> (Option<String>, DumpOutcome) {
        match self.client.get(&self.target()) {
            Ok(secret) => (version(&secret), self.publish(secret)),
            Err(Error::NotFound(_)) => (None, DumpOutcome::Absent),
            Err(error) => (None, DumpOutcome::Unread(error)),
        }
    }

    fn publish(&self, secret: Value) -> DumpOutcome {
        let name = format!("{}/{}", self.settings.namespace, self.settings.secret);
        let content = Content::of(&name, &secret, self.settings.flattened.as_deref());
        // A large one leaves its room to the files.
        drop(secret);
        let content = match content {
            Ok(content) => content,
            Err(error) => {
                self.status().reads.1 += 1;
                return DumpOutcome::Waiting(error.to_string());
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
                    return DumpOutcome::Waiting("it has no kubeconfig".into());
                }
                self.status().expires = content.expires;
                DumpOutcome::Current
            }
            Err(error) => DumpOutcome::Unwritten(error),
        }
    }

    /// Takes note of an outcome; `true` if it is another one than before.
    pub(crate) fn record(&self, outcome: &DumpOutcome) -> bool {
        let mut status = self.status();
        let reason = match outcome {
            DumpOutcome::Current => None,
            DumpOutcome::Absent => Some(ABSENT.into()),
            DumpOutcome::Waiting(reason) => Some(reason.clone()),
            // The files are no worse for it.
            DumpOutcome::Unread(_) => status.reason.clone(),
            DumpOutcome::Unwritten(error) => Some(error.to_string()),
        };
        match outcome {
            DumpOutcome::Current => {
                (status.failures, status.succeeded) = (0, Some(SystemTime::now()))
            }
            DumpOutcome::Absent | DumpOutcome::Waiting(_) => status.failures = 0,
            DumpOutcome::Unread(_) | DumpOutcome::Unwritten(_) => status.failures += 1,
        }
        let before = std::mem::replace(&mut status.reason, reason);
        before != status.reason
    }

    /// What is known; the guard is never held across I/O.
    pub(crate) fn status(&self) -> MutexGuard<'_, DumpStatus> {
        lock(&self.status)
    }
}

/// `Secret ns/name`
impl fmt::Display for Dumper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret {}/{}", self.settings.namespace, self.settings.secret)
    }
}

/// Changes with each change of an object.
pub(crate) fn version(object: &Value) -> Option<String> {
    object["metadata"]["resourceVersion"].as_str().map(str::to_owned)
}
