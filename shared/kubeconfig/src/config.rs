//! Validated configuration of a client for one API server, or the error. Key material is zeroed on drop.

use std::fmt;

use zeroize::Zeroizing;

#[derive(Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// `https://host:port/prefix` or `http://…`, without a trailing slash.
    pub server: String,
    pub trust: Trust,
    /// The name to verify and to send as SNI, instead of the host of `server`.
    pub server_name: Option<String>,
    pub identity: Option<KeyPair>,
    pub auth: Auth,
    /// `proxy-url` of the kubeconfig; `None` means that the environment decides.
    pub proxy: Option<String>,
    /// The namespace of the context, or the pod's own.
    pub namespace: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Only these roots: PEM, at least one certificate.
    Bundle(Vec<u8>),
    System,
    Anything,
}

#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// PEM, leaf first.
    pub certificate: Vec<u8>,
    /// PEM: PKCS#8, SEC1 or PKCS#1.
    pub key: Zeroizing<Vec<u8>>,
}

/// The content of the Authorization header.
#[derive(Clone, PartialEq, Eq)]
pub enum Auth {
    None,
    Token(Zeroizing<String>),
}

/// Prints the server only: the URL of a proxy may hold a password.
impl fmt::Debug for ClusterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterConfig({})", self.server)
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPair(***)")
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Token(_) => f.write_str("Token(***)"),
        }
    }
}

/// One sentence, which never contains a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    sentence: String,
    /// The byte offset of the predicate.
    problem: usize,
}

impl ConfigError {
    /// "`subject` `problem`", where the subject is a file, Secret or flag, or an entry of it: "Secret ns/x has no
    /// tls.crt".
    pub fn of(subject: &str, problem: &str) -> Self {
        Self { sentence: format!("{subject} {problem}"), problem: subject.len() + 1 }
    }

    pub fn message(&self) -> &str {
        &self.sentence
    }

    /// The predicate, for a sentence with another subject: "has no tls.crt".
    pub fn problem(&self) -> &str {
        &self.sentence[self.problem..]
    }
}

impl<T: Into<String>> From<T> for ConfigError {
    fn from(sentence: T) -> Self {
        Self { sentence: sentence.into(), problem: 0 }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for ConfigError {}

pub type Result<T> = std::result::Result<T, ConfigError>;
