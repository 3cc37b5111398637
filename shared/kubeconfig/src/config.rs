//! Checked configuration of a client for one API server. Secrets are overwritten when they are no longer used.

use std::fmt;

use zeroize::Zeroizing;

#[derive(Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// `https://host:port/prefix` or `http://…`, without a slash at the end.
    pub server: String,
    pub trust: Trust,
    /// Name to verify and to send as SNI instead of the host of `server`.
    pub server_name: Option<String>,
    pub identity: Option<KeyPair>,
    pub auth: Auth,
    /// `proxy-url` of the kubeconfig; `None` leaves the choice to the environment.
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

/// Server and identity only: a proxy's URL may hold a password.
impl fmt::Debug for ClusterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterConfig({}, {:?}, {:?})", self.server, self.identity, self.auth)
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
