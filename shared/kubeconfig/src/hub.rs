//! Hub of a kubeconfig: the cluster without the user. A hub's credential shares it with the bootstrap kubeconfig that
//! requested the credential.

use std::{fmt, mem};

use base64::{Engine, prelude::BASE64_STANDARD};

use crate::{
    cluster::{authority, proxy, server},
    config::Result,
    document::Kubeconfig,
    secret::Data,
    yaml::quoted,
};

/// The cluster of the current context, with its fields as written.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Hub {
    pub name: String,
    pub server: String,
    /// The scheme is in lower case.
    pub proxy: Option<String>,
    /// The file that `certificate-authority` names.
    pub authority_file: Option<String>,
    /// PEM of the authority, inline or from that file; `None` also if the file cannot be read.
    pub authority: Option<Vec<u8>>,
    pub server_name: Option<String>,
    pub insecure: bool,
}

/// Prints the name only: the URL of a proxy may hold a password.
impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Hub {
    pub(crate) fn of(document: &Kubeconfig<'_>) -> Result<Self> {
        let name = document.context()?.cluster;
        let cluster = if name.is_empty() { None } else { document.cluster(&name)? };
        let cluster = cluster.ok_or_else(|| document.nothing())?;
        server(&cluster, None)?;
        let proxy = proxy(&cluster)?;
        let authority = match authority(&cluster) {
            // The path may belong to another machine or container.
            Err(_) if !cluster.value.certificate_authority.is_empty() => None,
            content => content?.map(|mut pem| mem::take(&mut *pem)),
        };
        let (cluster, some) =
            (cluster.value, |text: String| Some(text).filter(|it| !it.is_empty()));
        Ok(Self {
            name,
            server: cluster.server,
            proxy,
            authority_file: some(cluster.certificate_authority),
            authority,
            server_name: some(cluster.tls_server_name),
            insecure: cluster.insecure_skip_tls_verify,
        })
    }

    pub fn of_secret(name: &str, data: &Data) -> Result<Self> {
        Self::of(&Kubeconfig::of_secret(name, data)?)
    }

    /// The URL of its server, which identifies a hub.
    pub fn url(&self) -> &str {
        self.server.trim_end_matches('/')
    }

    /// Returns whether both verify the server in the same way.
    pub fn is_checked_as(&self, other: &Self) -> bool {
        self.server_name == other.server_name && self.insecure == other.insecure
    }

    /// The first field that differs from `other`, if any. Authorities compare by path if one of them cannot be read.
    pub fn differs_from(&self, other: &Self) -> Option<&'static str> {
        let same_authority = match (&self.authority, &other.authority) {
            (Some(one), Some(another)) => one == another,
            (None, None) => self.authority_file == other.authority_file,
            _ => self.authority_file.is_some() && self.authority_file == other.authority_file,
        };
        [
            ("server", self.url() == other.url()),
            ("proxy-url", self.proxy == other.proxy),
            ("certificate-authority", same_authority),
            ("cluster name", self.name == other.name),
        ]
        .into_iter()
        .find_map(|(what, same)| (!same).then_some(what))
    }

    /// A kubeconfig for this hub whose user has `tls.crt` and `tls.key` next to it: byte for byte what OCM's agents
    /// write (ocm `pkg/registration/register/common.go:37-64`), except that an authority file becomes inline data.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_of("client-certificate: tls.crt\n    client-key: tls.key")
    }

    /// A kubeconfig for a user with the token in the file `token` next to it.
    pub fn token_kubeconfig(&self, token: &str) -> String {
        self.kubeconfig_of(&format!("tokenFile: {}", quoted(token)))
    }

    fn kubeconfig_of(&self, user: &str) -> String {
        let text = |text: &Option<String>| text.as_deref().map(|text| quoted(text).into_owned());
        let cluster = lines([
            (
                "certificate-authority-data",
                self.authority.as_ref().map(|pem| BASE64_STANDARD.encode(pem)),
            ),
            ("insecure-skip-tls-verify", self.insecure.then(|| "true".into())),
            ("proxy-url", text(&self.proxy)),
            ("server", Some(quoted(&self.server).into())),
            ("tls-server-name", text(&self.server_name)),
        ]);
        let name = quoted(&self.name);
        format!(
            "apiVersion: v1
clusters:
- cluster:
{cluster}  name: {name}
contexts:
- context:
    cluster: {name}
    namespace: configuration
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
users:
- name: default-auth
  user:
    {user}
"
        )
    }
}

fn lines<const N: usize>(fields: [(&str, Option<String>); N]) -> String {
    let line =
        |(field, value)| Option::map(value, |value: String| format!("    {field}: {value}\n"));
    fields.into_iter().filter_map(line).collect()
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
