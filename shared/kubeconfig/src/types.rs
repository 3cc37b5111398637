//! Fields of a kubeconfig that count, as in client-go's `tools/clientcmd/api/v1/types.go`. Empty means absent.

use std::collections::BTreeMap;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// A cluster, context or user.
pub(crate) trait ConfigEntry: Default + DeserializeOwned {
    /// The field that holds it, which is also the singular of its list.
    const KIND: &'static str;
}

/// A server and the trust in it.
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

/// The credentials of a user.
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

/// A cluster, a user and a namespace.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Context {
    pub(crate) cluster: String,
    pub(crate) user: String,
    pub(crate) namespace: String,
}

impl ConfigEntry for Cluster {
    const KIND: &'static str = "cluster";
}

impl ConfigEntry for AuthInfo {
    const KIND: &'static str = "user";
}

impl ConfigEntry for Context {
    const KIND: &'static str = "context";
}

/// The typed form of `fields`, which has no null, or the sentence about a field of another type: serde's would
/// quote the value.
pub(crate) fn typed<T: ConfigEntry>(fields: &Map<String, Value>) -> Result<T, String> {
    T::deserialize(fields).map_err(|_| {
        let alone =
            |(key, value): (&String, &Value)| Map::from_iter([(key.clone(), value.clone())]);
        let wrong = fields.iter().find(|field| T::deserialize(&alone(*field)).is_err());
        let field = wrong.map_or("a field", |(field, _)| field);
        let kind = match field {
            "insecure-skip-tls-verify" => "true or false",
            "as-groups" => "a list of texts",
            "as-user-extra" => "a map of lists of texts",
            _ => "text",
        };
        format!("is unusable: {field} is not {kind}")
    })
}
