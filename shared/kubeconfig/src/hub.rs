//! Hub of a kubeconfig: its server without the user, which a hub's credential has in common with the
//! kubeconfig that requested it.

use std::fmt;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{Kubeconfig, current_context, find, nothing_in, proxy, server};
use crate::{error::Result, secret::Data, yaml};

/// The cluster of the current context.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Hub {
    /// Its name in the kubeconfig.
    pub name: String,
    /// Its URL, as written.
    pub server: String,
    /// `proxy-url`.
    pub proxy: Option<String>,
    /// The file that `certificate-authority` names, as written.
    pub authority_file: Option<String>,
    /// PEM of the authority, inline or in that file; `None` also when the file cannot be read from here.
    pub authority: Option<Vec<u8>>,
    /// `tls-server-name`.
    pub server_name: Option<String>,
    /// `insecure-skip-tls-verify`.
    pub insecure: bool,
}

/// The proxy's URL may have a password.
impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Hub {
    /// From the key `kubeconfig` of the Secret `name`.
    ///
    /// # Errors
    /// `BadConfig` if there is none or it cannot be read.
    pub fn of_secret(name: &str, data: &Data) -> Result<Self> {
        Self::of(&Kubeconfig::of_secret(name, data)?)
    }

    pub(super) fn of(document: &Kubeconfig<'_>) -> Result<Self> {
        let documents = std::slice::from_ref(document);
        let context = current_context(documents)?;
        let name = context.text("cluster")?.ok_or_else(|| nothing_in(document))?;
        let cluster = find(documents, "cluster", name).ok_or_else(|| nothing_in(document))?;
        // A check only; the URL is kept as written.
        server(&cluster, None)?;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let authority_file = owned(cluster.text("certificate-authority")?);
        let authority = match cluster.content("certificate-authority") {
            // A path of another machine or container is no objection to the rest.
            Err(_) if authority_file.is_some() => None,
            content => content?.map(|mut pem| std::mem::take(&mut *pem)),
        };
        Ok(Self {
            name: name.to_owned(),
            server: cluster.text("server")?.unwrap_or_default().to_owned(),
            proxy: proxy(&cluster)?,
            authority_file,
            authority,
            server_name: owned(cluster.text("tls-server-name")?),
            insecure: cluster.flag("insecure-skip-tls-verify")?,
        })
    }

    /// The difference between this hub and `other`, in a word, if there is one. Two authorities are the
    /// same by their path if one cannot be read.
    pub fn differs_from(&self, other: &Self) -> Option<&'static str> {
        let same_authority = match (&self.authority, &other.authority) {
            (Some(one), Some(another)) => one == another,
            (None, None) => self.authority_file == other.authority_file,
            _ => self.authority_file.is_some() && self.authority_file == other.authority_file,
        };
        let url = |hub: &Self| hub.server.trim_end_matches('/').to_owned();
        [
            ("server", url(self) == url(other)),
            ("proxy-url", self.proxy == other.proxy),
            ("certificate-authority", same_authority),
            ("cluster name", self.name == other.name),
        ]
        .into_iter()
        .find_map(|(what, same)| (!same).then_some(what))
    }

    /// A kubeconfig for this hub whose user has the certificate `tls.crt` and the key `tls.key` next to it.
    /// It is that of Open Cluster Management's agents (ocm `pkg/registration/register/common.go:37-64`),
    /// byte for byte unless it names a file: a file's authority becomes part of it.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_of(&json!({"client-certificate": "tls.crt", "client-key": "tls.key"}))
    }

    /// The same for a user with the token in the file `token` next to it.
    pub fn token_kubeconfig(&self, token: &str) -> String {
        self.kubeconfig_of(&json!({"tokenFile": token}))
    }

    fn kubeconfig_of(&self, user: &Value) -> String {
        let mut cluster = json!({"server": self.server});
        let authority = self.authority.as_ref().map(|pem| json!(BASE64_STANDARD.encode(pem)));
        for (field, value) in [
            ("certificate-authority-data", authority),
            ("proxy-url", self.proxy.as_ref().map(|url| json!(url))),
            ("tls-server-name", self.server_name.as_ref().map(|name| json!(name))),
            ("insecure-skip-tls-verify", self.insecure.then_some(json!(true))),
        ] {
            if let Some(value) = value {
                cluster[field] = value;
            }
        }
        let context =
            json!({"cluster": self.name, "namespace": "configuration", "user": "default-auth"});
        let kubeconfig = json!({
            "apiVersion": "v1",
            "clusters": [{"cluster": cluster, "name": self.name}],
            "contexts": [{"context": context, "name": "default-context"}],
            "current-context": "default-context",
            "kind": "Config",
            "users": [{"name": "default-auth", "user": user}],
        });
        yaml::print(&kubeconfig)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(cluster: &str) -> Hub {
        let text = format!(
            r#"{{"current-context": "x", "contexts": [{{"name": "x", "context": {{"cluster": "c", "user": "u"}}}}],
            "clusters": [{{"name": "c", "cluster": {cluster}}}]}}"#
        );
        let data = Data::from([("kubeconfig".to_owned(), text.into_bytes().into())]);
        Hub::of_secret("ns/x", &data).unwrap()
    }

    #[test]
    fn the_kubeconfig_is_the_go_agents_to_the_byte() {
        let hub =
            hub(r#"{"server": "https://127.0.0.1:32927", "certificate-authority-data": "aGk="}"#);
        let expected = "\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: aGk=
    server: https://127.0.0.1:32927
  name: c
contexts:
- context:
    cluster: c
    namespace: configuration
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
users:
- name: default-auth
  user:
    client-certificate: tls.crt
    client-key: tls.key
";
        assert_eq!(hub.kubeconfig(), expected);
    }

    #[test]
    fn proxy_and_tls_settings_are_carried_over() {
        let hub = hub(
            r#"{"server": "https://h/", "proxy-url": "http://p:1", "tls-server-name": "h", "insecure-skip-tls-verify": true}"#,
        );
        let text = hub.kubeconfig();
        for line in [
            "    proxy-url: http://p:1\n",
            "    tls-server-name: h\n",
            "    insecure-skip-tls-verify: true\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn hub_differs_by_address_authority_or_name() {
        let here = hub(r#"{"server": "https://h", "certificate-authority-data": "aGk="}"#);
        let same = hub(r#"{"server": "https://h/", "certificate-authority-data": "aGk="}"#);
        assert_eq!(here.differs_from(&same), None);
        for (cluster, what) in [
            (r#"{"server": "https://i", "certificate-authority-data": "aGk="}"#, "server"),
            (
                r#"{"server": "https://h", "certificate-authority-data": "aG8="}"#,
                "certificate-authority",
            ),
            (r#"{"server": "https://h"}"#, "certificate-authority"),
            (
                r#"{"server": "https://h", "certificate-authority-data": "aGk=", "proxy-url": "http://p"}"#,
                "proxy-url",
            ),
        ] {
            assert_eq!(here.differs_from(&hub(cluster)), Some(what));
        }
        let renamed = Hub { name: "d".into(), ..same };
        assert_eq!(here.differs_from(&renamed), Some("cluster name"));
    }

    #[test]
    fn authority_in_another_file_is_known_by_its_path() {
        let copied =
            hub(r#"{"server": "https://h", "certificate-authority": "/spoke/bootstrap/ca.crt"}"#);
        assert_eq!(copied.authority, None);
        let read = Hub { authority: Some(b"pem".to_vec()), ..copied.clone() };
        assert_eq!(copied.differs_from(&read), None);
        assert!(read.kubeconfig().contains("certificate-authority-data: cGVt\n"));
        let other = Hub { authority_file: Some("/other/ca.crt".into()), ..read };
        assert_eq!(copied.differs_from(&other), Some("certificate-authority"));
    }
}
