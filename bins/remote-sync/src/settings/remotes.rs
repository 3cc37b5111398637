//! Remotes on the command line, and the registry.

use std::path::{Path, PathBuf};

use apiclient::resource::{valid_label, valid_name};
use sidecar::flags::Flags;

/// A remote on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) name: String,
    pub(crate) source: RemoteSource,
}

/// The location of a remote's kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RemoteSource {
    File(PathBuf),
    /// On the local cluster; without a key one of the usual ones is used.
    Secret {
        namespace: String,
        name: String,
        key: Option<String>,
    },
}

/// The local cluster in messages and labels; no remote can have this name.
pub(crate) const OWN: &str = "own";
/// Suffix of a kubeconfig Secret, after the cluster's name (Cluster API `util/kubeconfig/kubeconfig.go`).
pub(crate) const SECRET_SUFFIX: &str = "-kubeconfig";
/// The label of such a Secret, with the cluster's name.
pub(crate) const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// The Secrets of remotes that come and go at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registry {
    pub(crate) namespace: String,
    /// A label selector that includes [`CLUSTER_LABEL`].
    pub(crate) selector: String,
}

/// The remotes on the command line.
pub(super) fn remotes(flags: &Flags) -> Result<Vec<Remote>, String> {
    let files = flags.list("remote-kubeconfig");
    let secrets = flags.list("remote-kubeconfig-secret");
    let files = files.into_iter().map(file);
    let remotes = files.chain(secrets.into_iter().map(secret)).collect::<Result<Vec<_>, _>>()?;
    for (index, remote) in remotes.iter().enumerate() {
        let name = &remote.name;
        if !valid_label(name) {
            return Err(format!(
                "the remote {name:?} has a name that is not a DNS label: set one with NAME= before its kubeconfig"
            ));
        }
        if name == OWN {
            return Err(format!(
                "a remote cannot be named {OWN}: set another name with NAME= before its kubeconfig"
            ));
        }
        if remotes[..index].iter().any(|other| other.name == *name) {
            return Err(format!(
                "two remotes are named {name}: rename one with NAME= before its kubeconfig"
            ));
        }
    }
    Ok(remotes)
}

/// The registry, if there is one.
pub(super) fn registry(flags: &Flags, own: Option<&str>) -> Result<Option<Registry>, String> {
    let given = flags.some("remote-selector-namespace");
    let selector = flags.text("remote-selector").trim();
    match (selector, given) {
        ("", _) if flags.is_given("remote-selector") => {
            return Err("-remote-selector is empty: name a label, or omit it".into());
        }
        ("", Some(_)) => {
            return Err("-remote-selector-namespace belongs to -remote-selector".into());
        }
        ("", None) => return Ok(None),
        _ => {}
    }
    let namespace = given.or(own).ok_or(
        "-remote-selector needs a namespace: set -remote-selector-namespace, -namespace or POD_NAMESPACE",
    )?;
    if !valid_label(namespace) {
        return Err(format!(
            "-remote-selector-namespace {namespace:?} is not the name of a namespace"
        ));
    }
    let selector = format!("{selector},{CLUSTER_LABEL}");
    Ok(Some(Registry { namespace: namespace.to_owned(), selector }))
}

fn file(text: &str) -> Result<Remote, String> {
    let (name, path) = named(text);
    if path.is_empty() {
        return Err(format!("-remote-kubeconfig must be [NAME=]FILE, got {text:?}"));
    }
    let stem = || Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.map_or_else(stem, str::to_owned);
    Ok(Remote { name, source: RemoteSource::File(path.into()) })
}

fn secret(text: &str) -> Result<Remote, String> {
    let (name, place) = named(text);
    let (place, key) = match place.split_once(':') {
        Some((place, key)) => (place, Some(key)),
        None => (place, None),
    };
    let (namespace, secret) = place.split_once('/').unwrap_or_default();
    if !valid_label(namespace) || !valid_name(secret) || !key.is_none_or(valid_data_key) {
        return Err(format!(
            "-remote-kubeconfig-secret must be [NAME=]NAMESPACE/SECRET[:KEY], got {text:?}"
        ));
    }
    let name = name.unwrap_or_else(|| secret.strip_suffix(SECRET_SUFFIX).unwrap_or(secret));
    let source = RemoteSource::Secret {
        namespace: namespace.to_owned(),
        name: secret.to_owned(),
        key: key.map(str::to_owned),
    };
    Ok(Remote { name: name.to_owned(), source })
}

/// The name before the `=`, if there is one; a path may contain that too.
fn named(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((name, rest)) if !name.contains('/') => (Some(name), rest),
        _ => (None, text),
    }
}

/// A valid key of a Secret's data (apimachinery `util/validation/validation.go`, IsConfigMapKey).
fn valid_data_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}
