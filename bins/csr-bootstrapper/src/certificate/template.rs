//! Template of a certificate request: whose certificate it is, who signs it, and the names of the object.

/// The subject of a client certificate, as an API server reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The common name.
    pub user: String,
    /// The organizations, sorted, each once.
    pub groups: Vec<String>,
    /// The organizational units, sorted, each once.
    pub units: Vec<String>,
}

/// What a request asks for, whatever its key is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CsrTemplate {
    pub subject: Subject,
    pub dns_names: Vec<String>,
    /// `signerName` of the object.
    pub signer: String,
    /// Begin of the object's name; a hash of the key follows.
    pub name_prefix: String,
    /// The object's labels: hints, which anybody could set.
    pub labels: Vec<(&'static str, String)>,
}
