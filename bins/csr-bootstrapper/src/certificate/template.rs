//! Template of a certificate request: whose certificate it is, who signs it, and the names of the object.

/// The subject of a client certificate, as an API server reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    /// The common name.
    pub(crate) user: String,
    /// The organizations, sorted, each once.
    pub(crate) groups: Vec<String>,
    /// The organizational units, sorted, each once.
    pub(crate) units: Vec<String>,
}

/// What a request asks for, whatever its key is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CsrTemplate {
    pub(crate) subject: Subject,
    pub(crate) dns_names: Vec<String>,
    /// `signerName` of the object.
    pub(crate) signer: String,
    /// Begin of the object's name; a hash of the key follows.
    pub(crate) name_prefix: String,
    /// The object's labels: hints, which anybody could set.
    pub(crate) labels: Vec<(&'static str, String)>,
}
