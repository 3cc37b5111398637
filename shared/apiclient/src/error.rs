//! Error type of all crates: one variant for each way to recover. Its text is a sentence that names the object
//! and never holds a credential.

use std::{fmt, time::Duration};

use kubeconfig::config::ConfigError;

#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// The object to be created is there already (409 `AlreadyExists`): read it.
    AlreadyExists(String),
    /// A kubeconfig, certificate, key or file cannot be used: keep what worked, wait for a change.
    BadConfig(ConfigError),
    /// The peer broke the protocol or sent what is not the object asked for: a lost connection.
    BadPeer(String),
    /// A stale resourceVersion or another uid (409 `Conflict`): read the object again.
    Conflict(String),
    /// A right is missing (403): back off and say which.
    Forbidden(String),
    /// The resourceVersion is too old for the server (410): list again.
    Gone(String),
    /// The server refuses to change a field that is set once and for all (422): delete the object, or leave it.
    Immutable(String),
    /// The server refuses the content (400, 405, 413, 415, 422): the same again would be refused again.
    Invalid(String),
    /// Another replica leads, or may do so soon: end the process.
    LeadLost(String),
    /// The namespace is being deleted (403 with cause `NamespaceTerminating`): wait.
    NamespaceTerminating(String),
    /// The server says that this very object does not exist (404 that names it).
    NotFound(String),
    /// 404 that does not name the object: the namespace, kind or path is not served (yet).
    NotServed(String),
    /// The server is busy or broken (429, 5xx): try again, not before `retry_after`.
    Unavailable {
        message: String,
        retry_after: Option<Duration>,
        /// Only this object has to wait: others may be requested.
        of_object: bool,
    },
    /// The object costs more memory than it may, and is not read: leave it alone, go on with others.
    TooLarge(String),
    /// The server has not seen this resourceVersion (504 with cause `ResourceVersionTooLarge`), as after a
    /// restore: list again, and believe versions that are older.
    TooNew(String),
    /// The credential is not accepted (401): load it anew.
    Unauthorized(String),
    /// No answer (name, route, TLS, time-out, lost connection): a write may have arrived all the same.
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
