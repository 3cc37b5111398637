//! Loads a kubeconfig from a file, a Secret or the pod, as client-go v0.34.3 does (`tools/clientcmd`). Comments note
//! intended differences.

mod cluster;
pub mod config;
mod document;
mod files;
mod hub;
pub mod secret;
mod user;
mod yaml;

use std::{
    env::split_paths,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

pub use self::{
    cluster::server_url,
    files::referenced_key,
    hub::Hub,
    user::{certified_key, check_pair},
    yaml::{parse, quoted},
};
use self::{
    config::{Auth, ClusterConfig, ConfigError, Result, Trust},
    document::{Context, Kubeconfig},
    files::{NamedFiles, read_limited},
    secret::Data,
};

/// The environment of the process; tests inject another one.
pub struct Env<'a> {
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The directory with `token`, `ca.crt` and `namespace` of the pod's service account.
    pub service_account: &'a Path,
}

impl Env<'static> {
    pub fn process() -> Self {
        Self {
            variable: &|name| std::env::var_os(name),
            service_account: Path::new("/var/run/secrets/kubernetes.io/serviceaccount"),
        }
    }
}

impl Env<'_> {
    fn get(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.into_string().ok()
    }
}

/// Searches in controller-runtime's order: `-kubeconfig`, `KUBECONFIG`, the pod's service account,
/// `$HOME/.kube/config`. `master` overrides the server of a file, never the pod's.
pub fn load(flag: Option<&Path>, master: Option<&str>, env: &Env<'_>) -> Result<ClusterConfig> {
    let master = master.filter(|url| !url.is_empty());
    if let Some(path) = flag.filter(|path| !path.as_os_str().is_empty()) {
        return settled(path, || only(&existing(path, NamedFiles::Anywhere)?, master));
    }
    let listed = env.get("KUBECONFIG");
    if listed.is_none()
        && let Ok(config) = in_cluster(env)
    {
        return Ok(config);
    }
    let path = match listed {
        Some(list) => Some(single_path(&list)?),
        None => env.get("HOME").map(|home| Path::new(&home).join(".kube/config")),
    };
    let path = path.unwrap_or_default();
    let document = Kubeconfig::read(&path, NamedFiles::Anywhere)?;
    if let Some(config) = resolve(&document.unwrap_or_else(Kubeconfig::empty), master)? {
        return Ok(config);
    }
    // client-go also falls back to the pod if the file is empty (merged_client_builder.go:114-126).
    in_cluster(env)
        .map_err(|why| format!("no configuration: none in kubeconfig {path:?}; {why}").into())
}

/// client-go would merge several files.
fn single_path(list: &OsStr) -> Result<PathBuf> {
    let paths: Vec<_> = split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect();
    match &*paths {
        [path] => Ok(path.clone()),
        _ => Err(format!("KUBECONFIG must name one file, got {}", paths.len()).into()),
    }
}

/// Reads this file, and the files beside it that it names. Unlike client-go, an empty file is an error: a client of the
/// hub must not end up at its own cluster.
pub fn from_file(path: &Path) -> Result<ClusterConfig> {
    settled(path, || only(&existing(path, NamedFiles::Beside)?, None))
}

/// Like [`from_file`], and also returns the hub.
pub fn hub_from_file(path: &Path) -> Result<(Hub, ClusterConfig)> {
    settled(path, || {
        let document = existing(path, NamedFiles::Beside)?;
        Ok((Hub::of(&document)?, only(&document, None)?))
    })
}

/// Reads the key `kubeconfig` of the Secret `name`. A file name in it refers to the key of that name: OCM writes
/// `tls.crt`, and copies a CA path from another machine. The only file read from disk is the CA of the pod's own
/// cluster, which the kubeconfig of a self-managed hub names.
pub fn from_secret(name: &str, data: &Data) -> Result<ClusterConfig> {
    only(&Kubeconfig::of_secret(name, data)?, None)
}

/// Checks the key `kubeconfig` of the Secret `name` for programs that only pass it on: it parses, names a server, and
/// the other keys that it names exist and match. Credentials outside the Secret, such as `exec`, are not checked.
pub fn check_secret(name: &str, data: &Data) -> Result<()> {
    let document = Kubeconfig::of_secret(name, data)?;
    let context = document.context()?;
    let cluster = document.cluster(&context.cluster)?.ok_or_else(|| document.nothing())?;
    cluster::server(&cluster, None)?;
    if !Path::new(&cluster.value.certificate_authority).is_absolute() {
        cluster::trust(&cluster)?;
    }
    user::check(&document.user(&context.user)?)
}

/// The program's namespace: `flag`, else POD_NAMESPACE, else the service account's
/// (clientcmd/client_config.go:646-661).
pub fn own_namespace(flag: Option<&str>, env: &Env<'_>) -> Option<String> {
    let given = flag.map(str::to_owned).or_else(|| env.text("POD_NAMESPACE"));
    given.or_else(|| {
        let bytes = read_limited(&env.service_account.join("namespace")).ok()?;
        let name = str::from_utf8(&bytes).ok()?.trim();
        (!name.is_empty()).then(|| name.to_owned())
    })
}

/// The pod's service account as a configuration (client-go rest/config.go:546-583).
pub fn in_cluster(env: &Env<'_>) -> Result<ClusterConfig> {
    let missing = |what: &str| ConfigError::from(format!("no in-cluster configuration: {what}"));
    let variables = "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be set to an address";
    let server = service_url(env).ok_or_else(|| missing(variables))?;
    let read = |name: &str| {
        let file = env.service_account.join(name);
        let unreadable = |e| missing(&format!("{} cannot be read: {e}", file.display()));
        read_limited(&file).map_err(unreadable)
    };
    let holds_no =
        |what: &str| missing(&format!("{} holds no usable {what}", env.service_account.display()));
    let token = user::file_token(&read("token")?).ok_or_else(|| holds_no("token"))?;
    Ok(ClusterConfig {
        server,
        auth: Auth::Token(token),
        trust: cluster::bundle(read("ca.crt")?).ok_or_else(|| holds_no("ca.crt"))?,
        server_name: None,
        identity: None,
        proxy: None,
        namespace: own_namespace(None, env),
    })
}

fn service_url(env: &Env<'_>) -> Option<String> {
    let host = env.text("KUBERNETES_SERVICE_HOST")?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    server_url(&format!("https://{host}:{}", env.text("KUBERNETES_SERVICE_PORT")?))
}

/// Reads files of a volume, which kubelet updates by swapping the link `..data` (`pkg/volume/util/atomic_writer.go`).
/// Reads once more if the link changed meanwhile, so that the files belong together.
fn settled<T>(path: &Path, read: impl Fn() -> Result<T>) -> Result<T> {
    let version = || fs::read_link(path.with_file_name("..data")).ok();
    let (before, content) = (version(), read());
    if before == version() { content } else { read() }
}

fn existing(path: &Path, files: fn(PathBuf) -> NamedFiles<'static>) -> Result<Kubeconfig<'static>> {
    let missing = || ConfigError::from(format!("kubeconfig {} does not exist", path.display()));
    Kubeconfig::read(path, files)?.ok_or_else(missing)
}

fn only(document: &Kubeconfig<'_>, master: Option<&str>) -> Result<ClusterConfig> {
    resolve(document, master)?.ok_or_else(|| document.nothing())
}

/// Resolves the current context. `None` means that it has no cluster, which client-go distinguishes from an invalid one
/// (client_config.go:459-478).
fn resolve(document: &Kubeconfig<'_>, master: Option<&str>) -> Result<Option<ClusterConfig>> {
    let Context { cluster, user, namespace } = document.context()?;
    let cluster = match document.cluster(&cluster)? {
        Some(cluster) => cluster,
        None if master.is_some() => document.missing(),
        None => return Ok(None),
    };
    let user = document.user(&user)?;
    user::check_supported(&user)?;
    let mut config = ClusterConfig {
        server: cluster::server(&cluster, master)?,
        trust: Trust::System,
        server_name: None,
        identity: None,
        auth: Auth::None,
        proxy: cluster::proxy(&cluster)?,
        namespace: Some(namespace).filter(|name| !name.is_empty()),
    };
    // client-go uses neither CA nor credentials without TLS (client_config.go:220-241).
    if config.server.starts_with("https:") {
        config.trust = cluster::trust(&cluster)?;
        (config.auth, config.identity) = user::credentials(&user)?;
        // The name belongs to the server that `master` overrides (client_config.go:584-590).
        let name = Some(cluster.value.tls_server_name);
        config.server_name = name.filter(|name| master.is_none() && !name.is_empty());
    }
    Ok(Some(config))
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn files_swapped_during_a_read_are_read_again() {
        for swapped in [false, true] {
            let directory = tempfile::TempDir::new().unwrap();
            let (link, reads) = (directory.path().join("..data"), Cell::new(0));
            symlink("v0", &link).unwrap();
            let read = settled(&directory.path().join("kubeconfig"), || {
                if swapped && reads.get() == 0 {
                    fs::remove_file(&link).unwrap();
                    symlink("v1", &link).unwrap();
                }
                Ok(reads.replace(reads.get() + 1))
            });
            assert_eq!(read, Ok(i32::from(swapped)));
        }
    }
}
