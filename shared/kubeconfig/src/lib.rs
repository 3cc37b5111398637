//! kubeconfig: its sources, the merge of several files, and the entries that count. The yardstick is
//! client-go v0.34.3, `tools/clientcmd`; intended differences are noted.

pub mod config;
mod document;
pub mod error;
mod hub;
mod incluster;
pub mod secret;
mod user;
pub mod yaml;

use std::{
    env::split_paths,
    ffi::OsString,
    fs, mem,
    path::{Path, PathBuf},
};

use http::Uri;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde_json::Value;
use zeroize::Zeroizing;

use self::document::{Kubeconfig, NamedEntry};
pub use self::{
    document::{Reach, parse_text as parse},
    hub::Hub,
    incluster::in_cluster,
    user::check_pair,
};

use crate::{
    config::{Auth, ClusterConfig, Trust},
    error::{ConfigError, Result},
    secret::Data,
};

/// The environment of the process; tests bring their own.
pub struct Env<'a> {
    /// Looks up one environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The directory with `token`, `ca.crt` and `namespace` of the pod's service account.
    pub service_account: &'a Path,
}

impl Env<'static> {
    /// The real surroundings.
    pub fn process() -> Self {
        Self {
            variable: &|name| std::env::var_os(name),
            service_account: Path::new("/var/run/secrets/kubernetes.io/serviceaccount"),
        }
    }
}

impl Env<'_> {
    /// A variable that is set and not empty.
    fn get(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }
}

/// Looks where controller-runtime looks: `-kubeconfig`, the files of `KUBECONFIG`, the pod's service
/// account, `$HOME/.kube/config`. `master` replaces the server of a file, never that of the pod.
///
/// # Errors
/// `BadConfig` if what was found cannot be used, or if nothing was found.
pub fn load(flag: Option<&Path>, master: Option<&str>, env: &Env<'_>) -> Result<ClusterConfig> {
    let master = master.filter(|url| !url.is_empty());
    if let Some(path) = flag.filter(|path| !path.as_os_str().is_empty()) {
        return settled(path, || only(existing(path, Reach::Anywhere)?, master));
    }
    let listed = env.get("KUBECONFIG");
    if listed.is_none()
        && let Ok(config) = in_cluster(env)
    {
        return Ok(config);
    }
    let paths: Vec<PathBuf> = match (listed, env.get("HOME")) {
        (Some(list), _) => split_paths(&list).collect(),
        (None, Some(home)) => vec![Path::new(&home).join(".kube/config")],
        (None, None) => Vec::new(),
    };
    let documents = paths.iter().filter(|path| !path.as_os_str().is_empty());
    let documents =
        documents.filter_map(|path| Kubeconfig::read(path, Reach::Anywhere).transpose());
    match resolve(&documents.collect::<Result<Vec<_>>>()?, master)? {
        Some(config) => Ok(config),
        // client-go too tries the pod when files hold nothing (merged_client_builder.go:114-126).
        None => in_cluster(env).map_err(|why| {
            ConfigError::from(format!("no configuration: none in kubeconfig {paths:?}; {why}"))
        }),
    }
}

/// Reads exactly this file, and those that it names within its `reach`. Without configuration in it there is
/// no second place to look, unlike client-go: a client of the hub must not end up at its own cluster.
///
/// # Errors
/// `BadConfig` if the file or one that it names is missing or cannot be used.
pub fn from_file(path: &Path, reach: Reach) -> Result<ClusterConfig> {
    settled(path, || only(existing(path, reach)?, None))
}

/// Reads exactly this file, as [`from_file`] does, and the hub that it leads to.
///
/// # Errors
/// `BadConfig` if the file or one that it names is missing or cannot be used.
pub fn hub_from_file(path: &Path, reach: Reach) -> Result<(Hub, ClusterConfig)> {
    let document = || existing(path, reach);
    settled(path, || Ok((Hub::of(&document()?)?, only(document()?, None)?)))
}

/// Reads the key `kubeconfig` of the Secret `name`. A file name in it means the key of that name: OCM
/// writes `tls.crt`, and copies a CA path from another place. From the disk it reads nothing but the
/// authority of the pod's own cluster, if that is named and is not a key: the kubeconfig of a hub that
/// manages itself has it.
///
/// # Errors
/// `BadConfig` if a key is missing or cannot be used.
pub fn from_secret(name: &str, data: &Data) -> Result<ClusterConfig> {
    only(Kubeconfig::of_secret(name, data)?, None)
}

/// As [`from_secret`], of a Secret as the server sends it.
///
/// # Errors
/// `BadConfig` if a key is missing or cannot be used.
pub fn from_secret_object(secret: &Value) -> Result<ClusterConfig> {
    from_secret(&secret::name(secret), &secret::data(secret)?)
}

/// Checks the key `kubeconfig` of the Secret `name` for programs that only pass it on: it parses, it names
/// a server, and the other keys that it names are there and fit. Other credentials of its readers, such as
/// `exec` or files of their own, are not checked.
///
/// # Errors
/// `BadConfig` if a key is missing or cannot be used.
pub fn check_secret(name: &str, data: &Data) -> Result<()> {
    let documents = [Kubeconfig::of_secret(name, data)?];
    let context = current_context(&documents)?;
    let cluster = find(&documents, "cluster", context.text("cluster")?.unwrap_or_default());
    let cluster = cluster.ok_or_else(|| nothing_in(&documents[0]))?;
    server(&cluster, None)?;
    let ca = cluster.text("certificate-authority")?;
    if ca.is_none_or(|ca| !Path::new(ca).is_absolute()) {
        trust(&cluster)?;
    }
    let user = find(&documents, "user", context.text("user")?.unwrap_or_default());
    user::check(&user.unwrap_or_default())
}

/// The program's namespace: `flag`, else POD_NAMESPACE, else that of the service account.
pub fn own_namespace(flag: Option<&str>, env: &Env<'_>) -> Option<String> {
    flag.map(str::to_owned).or_else(|| incluster::namespace(env))
}

/// Reads a set of files that the link `..data` next to `path` swaps as a whole, as in volumes (kubelet
/// `pkg/volume/util/atomic_writer.go`); it reads again after a swap.
fn settled<T>(path: &Path, read: impl Fn() -> Result<T>) -> Result<T> {
    let version = || fs::read_link(path.with_file_name("..data")).ok();
    for _ in 0..SWAPS {
        let (before, content) = (version(), read());
        if before == version() {
            return content;
        }
    }
    Err(ConfigError::from(format!("{} is being replaced over and over", path.display())))
}

/// More swaps than this during one read are no rotation.
const SWAPS: u32 = 5;

fn existing(path: &Path, reach: Reach) -> Result<Kubeconfig<'static>> {
    let missing = || ConfigError::from(format!("kubeconfig {} does not exist", path.display()));
    Kubeconfig::read(path, reach)?.ok_or_else(missing)
}

fn only(document: Kubeconfig<'_>, master: Option<&str>) -> Result<ClusterConfig> {
    let nothing = nothing_in(&document);
    resolve(&[document], master)?.ok_or(nothing)
}

fn nothing_in(document: &Kubeconfig<'_>) -> ConfigError {
    document.fail("has no configuration: no current-context with a cluster")
}

/// Reads only the entries of the current context. `None` means that there is no cluster to talk to, which
/// client-go distinguishes from a wrong one (client_config.go:459-478).
fn resolve(documents: &[Kubeconfig<'_>], master: Option<&str>) -> Result<Option<ClusterConfig>> {
    let context = current_context(documents)?;
    let cluster = find(documents, "cluster", context.text("cluster")?.unwrap_or_default());
    // A missing user is anonymous, not an error (client_config.go:510-519).
    let user = find(documents, "user", context.text("user")?.unwrap_or_default());
    let (cluster, user) = match (cluster, master) {
        (None, None) => return Ok(None),
        (cluster, _) => (cluster.unwrap_or_default(), user.unwrap_or_default()),
    };
    let mut config = ClusterConfig {
        server: server(&cluster, master)?,
        trust: Trust::System,
        server_name: None,
        identity: None,
        auth: Auth::None,
        impersonate: user::impersonation(&user)?,
        proxy: proxy(&cluster)?,
        namespace: context.text("namespace")?.map(str::to_owned),
    };
    // Without TLS neither the CA nor the credentials are used (client_config.go:220-241).
    if config.server.starts_with("https:") {
        config.trust = trust(&cluster)?;
        (config.auth, config.identity) = user::credentials(&user)?;
        // The name belongs to the server that `master` replaces (client_config.go:584-590).
        let name = cluster.text("tls-server-name")?.filter(|_| master.is_none());
        config.server_name = name.map(str::to_owned);
    }
    Ok(Some(config))
}

/// The first `current-context` counts, and its context has to exist.
fn current_context<'a>(documents: &'a [Kubeconfig<'a>]) -> Result<NamedEntry<'a>> {
    match documents.iter().find(|document| !document.current_context.is_empty()) {
        Some(document) => {
            let name = &document.current_context;
            let missing =
                || document.fail(&format!("has no context {name:?}, which is its current one"));
            find(documents, "context", name).ok_or_else(missing)
        }
        None => Ok(NamedEntry::default()),
    }
}

/// The first file that defines a name defines all of it (loader.go:193-196).
fn find<'a>(
    documents: &'a [Kubeconfig<'a>],
    kind: &'static str,
    name: &str,
) -> Option<NamedEntry<'a>> {
    documents.iter().find_map(|document| document.entry(kind, name))
}

fn server(cluster: &NamedEntry<'_>, master: Option<&str>) -> Result<String> {
    // The URL itself may hold a password.
    const BAD: &str = "is not an http or https URL of a host, without a user name";
    match (master, cluster.text("server")?) {
        (Some(url), _) => {
            server_url(url).ok_or_else(|| ConfigError::from(format!("-master {BAD}")))
        }
        (None, Some(url)) => {
            server_url(url).ok_or_else(|| cluster.fail(&format!("has a server that {BAD}")))
        }
        (None, None) => Err(cluster.fail("has no server")),
    }
}

/// The URL without query, fragment and slash at the end. Without a scheme it is `http` even beside a
/// CA: client-go decides before it looks at the CA (client_config.go:220, rest/config.go:591).
fn server_url(text: &str) -> Option<String> {
    let full = text.contains("://");
    let uri: Uri = if full { text.parse() } else { format!("http://{text}").parse() }.ok()?;
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let host = uri.host().filter(|host| !host.is_empty())?;
    let authority = uri.authority()?.as_str().trim_end_matches(':');
    let path = uri.path().trim_end_matches('/');
    // After a user name there is no host to strip; a port that is no number is no `port_u16`.
    let port = authority.strip_prefix(host)?;
    let sound = (port.is_empty() || uri.port_u16().is_some()) && (full || path.is_empty());
    (sound && matches!(&*scheme, "http" | "https")).then(|| format!("{scheme}://{authority}{path}"))
}

fn proxy(cluster: &NamedEntry<'_>) -> Result<Option<String>> {
    let Some(url) = cluster.text("proxy-url")? else {
        return Ok(None);
    };
    let uri = url.parse().ok().filter(|uri: &Uri| uri.host().is_some());
    let scheme = uri.and_then(|uri| uri.scheme_str().map(str::to_ascii_lowercase));
    match scheme.as_deref() {
        Some(scheme @ ("http" | "https" | "socks5")) => {
            Ok(Some(format!("{scheme}{}", &url[scheme.len()..])))
        }
        _ => Err(cluster.fail("has a proxy-url that is not an http, https or socks5 URL")),
    }
}

fn trust(cluster: &NamedEntry<'_>) -> Result<Trust> {
    let insecure = cluster.flag("insecure-skip-tls-verify")?;
    match cluster.content("certificate-authority")? {
        Some(_) if insecure => {
            Err(cluster.fail("has both insecure-skip-tls-verify and a certificate-authority"))
        }
        Some(pem) => bundle(pem)
            .ok_or_else(|| cluster.fail("has a certificate-authority that holds no certificate")),
        None if insecure => Ok(Trust::Anything),
        None => Ok(Trust::System),
    }
}

/// As in Go, one good certificate is enough.
fn bundle(mut pem: Zeroizing<Vec<u8>>) -> Option<Trust> {
    let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(|item| item.ok());
    let (good, _) = RootCertStore::empty().add_parsable_certificates(certificates);
    (good > 0).then(|| Trust::Bundle(mem::take(&mut pem)))
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, os::unix::fs::symlink};

    use super::*;

    /// Reads beside a `..data` that is swapped during each of the first `swaps` reads: the version at the start of the
    /// read that counts.
    fn read_during(swaps: u32) -> Result<u32> {
        let directory = tempfile::TempDir::new().unwrap();
        let (link, reads) = (directory.path().join("..data"), Cell::new(0));
        symlink("v0", &link).unwrap();
        settled(&directory.path().join("kubeconfig"), || {
            let version = reads.get();
            if version < swaps {
                fs::remove_file(&link).unwrap();
                symlink(format!("v{}", version + 1), &link).unwrap();
            }
            reads.set(version + 1);
            Ok(version)
        })
    }

    #[test]
    fn files_swapped_during_a_read_are_read_again() {
        assert_eq!(read_during(0), Ok(0));
        assert_eq!(read_during(1), Ok(1));
        assert_eq!(read_during(SWAPS - 1), Ok(SWAPS - 1));
        let error = read_during(SWAPS).unwrap_err();
        assert!(error.message().ends_with("is being replaced over and over"), "{error}");
    }
}
