//! One look at the Secret and what follows from it, and what is known of the last one.

use std::{
    fmt,
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant, SystemTime},
};

use serde_json::Value;
use shared::{
    client::Client,
    error::{Error, Result},
    flags::Flags,
    lock::lock,
    resource::{SECRETS, Target},
    stop::Stop,
    watch::LastError,
};

use crate::{
    content::Content,
    publisher::{Published, Publisher},
    settings::Settings,
};

/// Why there is nothing for files without a Secret.
pub(crate) const ABSENT: &str = "it does not exist";
/// A request gets this long.
const REQUEST: Duration = Duration::from_secs(10);

/// The parts of the running program, for all threads.
pub(crate) struct Dumper {
    pub(crate) settings: Settings,
    pub(crate) client: Client,
    pub(crate) stop: Stop,
    /// Why the Secret may have changed unseen.
    pub(crate) trouble: LastError,
    pub(crate) started: SystemTime,
    publisher: Publisher,
    progress: Mutex<Progress>,
}

/// What a look came to.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The files are what the Secret says.
    Current,
    /// There is no Secret.
    Absent,
    /// The Secret has nothing for files, for this reason: only a change of it helps.
    Waiting(String),
    /// The Secret could not be read; what was known of it stays.
    Unread(Error),
    /// The files could not be written.
    Unwritten(Error),
}

/// For the endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
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
        let progress = Progress {
            beat: None,
            succeeded: None,
            failures: 0,
            reason: Some("it was not read yet".into()),
            reads: (0, 0),
            expires: None,
        };
        Ok(Self {
            client: Client::of_own_cluster(flags, REQUEST)?,
            publisher: Publisher { path: settings.directory.clone(), modes: settings.modes },
            settings: settings.clone(),
            stop: stop.clone(),
            trouble: LastError::default(),
            started: SystemTime::now(),
            progress: Mutex::new(progress),
        })
    }

    pub(crate) fn target(&self) -> Target<'_> {
        SECRETS.object(&self.settings.namespace, &self.settings.secret)
    }

    /// Reads the Secret and makes the files follow; also says which version of it was read.
    pub(crate) fn look(&self) -> (Option<String>, Outcome) {
        match self.client.get(&self.target()) {
            Ok(secret) => (version(&secret), self.publish(secret)),
            Err(Error::NotFound(_)) => (None, Outcome::Absent),
            Err(error) => (None, Outcome::Unread(error)),
        }
    }

    fn publish(&self, secret: Value) -> Outcome {
        let name = format!("{}/{}", self.settings.namespace, self.settings.secret);
        let content = Content::of(&name, &secret, self.settings.flattened.as_deref());
        // A large one leaves its room to the files.
        drop(secret);
        let content = match content {
            Ok(content) => content,
            Err(error) => {
                self.progress().reads.1 += 1;
                return Outcome::Waiting(error.to_string());
            }
        };
        self.progress().reads.0 += 1;
        match self.publisher.publish(&content, SystemTime::now(), &self.stop) {
            Ok(published) => {
                if published == Published::Changed {
                    let (count, path) = (content.files.len(), self.settings.directory.display());
                    log::info!("{count} files of {self} are in {path}");
                }
                if !content.complete {
                    return Outcome::Waiting("it has no kubeconfig".into());
                }
                self.progress().expires = content.expires;
                Outcome::Current
            }
            Err(error) => Outcome::Unwritten(error),
        }
    }

    /// Takes note of an outcome; `true` if it is another one than before.
    pub(crate) fn note(&self, outcome: &Outcome) -> bool {
        let mut progress = self.progress();
        let reason = match outcome {
            Outcome::Current => None,
            Outcome::Absent => Some(ABSENT.into()),
            Outcome::Waiting(reason) => Some(reason.clone()),
            // The files are no worse for it.
            Outcome::Unread(_) => progress.reason.clone(),
            Outcome::Unwritten(error) => Some(error.to_string()),
        };
        match outcome {
            Outcome::Current => {
                (progress.failures, progress.succeeded) = (0, Some(SystemTime::now()))
            }
            Outcome::Absent | Outcome::Waiting(_) => progress.failures = 0,
            Outcome::Unread(_) | Outcome::Unwritten(_) => progress.failures += 1,
        }
        let before = std::mem::replace(&mut progress.reason, reason);
        before != progress.reason
    }

    /// What is known; the guard is never held across I/O.
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
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
