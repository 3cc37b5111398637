//! Error type of all crates: one variant for each way to recover. Its message is a sentence that names the object and
//! never contains a credential.

use std::{fmt, time::Duration};

use kubeconfig::config::ConfigError;

#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// The object to create already exists (409 `AlreadyExists`): read it.
    AlreadyExists(String),
    /// A kubeconfig, certificate, key or file is invalid: keep the old one, wait for a change.
    BadConfig(ConfigError),
    /// The peer violated the protocol, or sent another object than requested: treat it as a lost connection.
    BadPeer(String),
    /// A stale resourceVersion or another uid (409 `Conflict`): read the object again.
    Conflict(String),
    /// A permission is missing (403): back off and name it.
    Forbidden(String),
    /// The resourceVersion is too old for the server (410): list again.
    Gone(String),
    /// The change concerns an immutable field (422): delete the object, or leave it.
    Immutable(String),
    /// The server refuses the content (400, 405, 413, 415, 422): a retry would be refused, too.
    Invalid(String),
    /// Another replica leads, or may soon lead: end the process.
    LeadLost(String),
    /// The namespace is being deleted (403 with cause `NamespaceTerminating`): wait.
    NamespaceTerminating(String),
    /// The object does not exist (a 404 that names it).
    NotFound(String),
    /// A 404 that does not name the object: the namespace, kind or path is not served (yet).
    NotServed(String),
    /// The server is busy or broken (429, 5xx): try again, not before `retry_after`.
    Unavailable {
        message: String,
        retry_after: Option<Duration>,
        /// The refusal concerns this object only.
        of_object: bool,
    },
    /// The object exceeds its memory limit and is not read: skip it.
    TooLarge(String),
    /// The resourceVersion is newer than the server's (504 with cause `ResourceVersionTooLarge`), as after a restore:
    /// list again, and accept older versions.
    TooNew(String),
    /// The credential is refused (401): reload it.
    Unauthorized(String),
    /// No answer (DNS, route, TLS, time-out, lost connection): a write may still have succeeded.
    Unreachable(String),
}

impl Error {
    pub fn bad_config(sentence: impl Into<ConfigError>) -> Self {
        Self::BadConfig(sentence.into())
    }

    pub fn message(&self) -> &str {
        match self {
            Self::BadConfig(error) => error.message(),
            Self::AlreadyExists(m)
            | Self::BadPeer(m)
            | Self::Conflict(m)
            | Self::Forbidden(m)
            | Self::Gone(m)
            | Self::Immutable(m)
            | Self::Invalid(m)
            | Self::LeadLost(m)
            | Self::NamespaceTerminating(m)
            | Self::NotFound(m)
            | Self::NotServed(m)
            | Self::TooLarge(m)
            | Self::TooNew(m)
            | Self::Unavailable { message: m, .. }
            | Self::Unauthorized(m)
            | Self::Unreachable(m) => m,
        }
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::BadConfig(error)
    }
}

pub type Result<T> = std::result::Result<T, Error>;

/// The object that was read, or `None` if it does not exist.
pub fn optional<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(Error::NotFound(_)) => Ok(None),
        found => found.map(Some),
    }
}
