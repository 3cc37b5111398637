//! Fields of a kubeconfig that count, as in client-go's `tools/clientcmd/api/v1/types.go`. Empty means absent.

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Config {
    #[serde(rename = "apiVersion")]
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) current_context: String,
    pub(crate) clusters: Vec<NamedEntry>,
    pub(crate) contexts: Vec<NamedEntry>,
    pub(crate) users: Vec<NamedEntry>,
}

/// NamedCluster, NamedContext or NamedAuthInfo. Its fields are checked when it is used: entries of other contexts may
/// hold anything.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct NamedEntry {
    pub(crate) name: String,
    #[serde(alias = "cluster", alias = "context", alias = "user")]
    pub(crate) fields: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Cluster {
    pub(crate) server: String,
    pub(crate) tls_server_name: String,
    pub(crate) insecure_skip_tls_verify: bool,
    pub(crate) certificate_authority: String,
    pub(crate) certificate_authority_data: String,
    pub(crate) proxy_url: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct AuthInfo {
    pub(crate) client_certificate: String,
    pub(crate) client_certificate_data: String,
    pub(crate) client_key: String,
    pub(crate) client_key_data: String,
    pub(crate) token: String,
    #[serde(rename = "tokenFile")]
    pub(crate) token_file: String,
    #[serde(flatten)]
    pub(crate) other: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Context {
    pub(crate) cluster: String,
    pub(crate) user: String,
    pub(crate) namespace: String,
}
