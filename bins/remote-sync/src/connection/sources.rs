//! Kubeconfigs in Secrets, such as Cluster API writes.

use apiclient::error::{Error, Result};
use kubeconfig::{self, config::ClusterConfig, secret};
use serde_json::Value;

/// The key of Cluster API (`util/secret/consts.go`), then that of Open Cluster Management.
const KEYS: [&str; 2] = ["value", "kubeconfig"];

/// The kubeconfig under `key`, or under the first of the usual keys that exists. Files that it refers to are
/// other keys.
///
/// # Errors
/// `BadConfig` says which part is unusable.
pub(crate) fn secret_config(
    name: &str,
    secret: &Value,
    key: Option<&str>,
) -> Result<ClusterConfig> {
    let mut data = secret::data(secret)?;
    let usual = KEYS.into_iter().find(|key| data.contains_key(*key)).unwrap_or(KEYS[0]);
    let key = key.unwrap_or(usual);
    let missing = || Error::bad_config(format!("Secret {name} has no key {key:?} in its data"));
    let kubeconfig = data.remove(key).ok_or_else(missing)?;
    data.insert("kubeconfig".to_owned(), kubeconfig);
    Ok(kubeconfig::from_secret(name, &data)?)
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_STANDARD};
    use serde_json::json;

    use super::*;

    const KUBECONFIG: &str = r#"{"current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://SERVER"}}],
        "users": [{"name": "u", "user": {USER}}]}"#;

    fn secret(entries: &[(&str, &str, &str)]) -> Value {
        let data = entries.iter().map(|(key, server, user)| {
            let text = KUBECONFIG.replace("SERVER", server).replace("USER", user);
            ((*key).to_owned(), json!(BASE64_STANDARD.encode(text)))
        });
        json!({"data": data.collect::<serde_json::Map<_, _>>()})
    }

    #[test]
    fn the_key_is_the_named_one_or_else_value_or_else_kubeconfig() {
        let server = |secret: &Value, key| secret_config("ns/x", secret, key).unwrap().server;
        let all = secret(&[("kubeconfig", "k", ""), ("other", "o", ""), ("value", "v", "")]);
        assert_eq!(server(&all, None), "https://v");
        assert_eq!(server(&all, Some("other")), "https://o");
        assert_eq!(server(&secret(&[("kubeconfig", "k", "")]), None), "https://k");
    }

    #[test]
    fn a_missing_key_is_named() {
        let error =
            |key| secret_config("ns/x", &secret(&[("a", "s", "")]), key).unwrap_err().to_string();
        assert_eq!(error(None), "Secret ns/x has no key \"value\" in its data");
        assert_eq!(error(Some("b")), "Secret ns/x has no key \"b\" in its data");
    }

    #[test]
    fn programs_that_would_get_credentials_are_not_run() {
        for (user, field) in [
            (r#""exec": {"command": "aws"}"#, "aws"),
            (r#""auth-provider": {"name": "oidc"}"#, "auth-provider"),
        ] {
            let error = secret_config("ns/x", &secret(&[("value", "s", user)]), None).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(field) && text.contains("not supported"), "{text}");
        }
    }
}
