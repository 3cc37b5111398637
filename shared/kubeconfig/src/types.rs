//! Fields of a kubeconfig that count, as in client-go's `tools/clientcmd/api/v1/types.go`. Empty means absent.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Cluster {
    pub server: String,
    pub tls_server_name: String,
    pub insecure_skip_tls_verify: bool,
    pub certificate_authority: String,
    pub certificate_authority_data: String,
    pub proxy_url: String,
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
    #[serde(rename = "as")]
    pub(crate) impersonate: String,
    #[serde(rename = "as-uid")]
    pub(crate) impersonate_uid: String,
    #[serde(rename = "as-groups")]
    pub(crate) impersonate_groups: Vec<String>,
    #[serde(rename = "as-user-extra")]
    pub(crate) impersonate_user_extra: BTreeMap<String, Option<Vec<String>>>,
    pub(crate) username: String,
    pub(crate) password: String,
    pub(crate) auth_provider: Value,
    pub(crate) exec: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Context {
    pub(crate) cluster: String,
    pub(crate) user: String,
    pub(crate) namespace: String,
}
