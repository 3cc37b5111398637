//! Remotes of the command line, and the registry of other remotes.

use std::path::{Path, PathBuf};

use apiclient::resource::{valid_label, valid_name};
use sidecar::flags::Flags;

use super::values::list;
use crate::model::known_clusters::OWN;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) name: String,
    pub(crate) source: RemoteSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RemoteSource {
    File(PathBuf),
    /// A Secret on the local cluster; without `key`, one of the usual keys.
    Secret {
        namespace: String,
        name: String,
        key: Option<String>,
    },
}

/// The Secrets of remotes that are added and removed at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registry {
    pub(crate) namespace: String,
    /// A label selector that includes [`CLUSTER_LABEL`].
    pub(crate) selector: String,
}

/// Suffix of a kubeconfig Secret, after the cluster's name (Cluster API `util/kubeconfig/kubeconfig.go`).
pub(crate) const SECRET_SUFFIX: &str = "-kubeconfig";
/// The label of such a Secret; its value is the cluster's name.
pub(crate) const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

pub(super) fn remotes(flags: &Flags) -> Result<Vec<Remote>, String> {
    let mut remotes = list(flags, "remote-kubeconfig", "[NAME=]FILE", file)?;
    let form = "[NAME=]NAMESPACE/SECRET[:KEY]";
    remotes.extend(list(flags, "remote-kubeconfig-secret", form, secret)?);
    for (index, Remote { name, .. }) in remotes.iter().enumerate() {
        let why = if !valid_label(name) {
            format!("the name of the remote {name:?} is not a DNS label")
        } else if name == OWN {
            format!("a remote cannot be named {OWN}")
        } else if remotes[..index].iter().any(|other| other.name == *name) {
            format!("two remotes are named {name}")
        } else {
            continue;
        };
        return Err(format!("{why}: set another one with NAME= before its kubeconfig"));
    }
    Ok(remotes)
}

fn file(text: &str) -> Option<Remote> {
    let (name, path) = named(text);
    let stem = || Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.map_or_else(stem, str::to_owned);
    (!path.is_empty()).then(|| Remote { name, source: RemoteSource::File(path.into()) })
}

fn secret(text: &str) -> Option<Remote> {
    let (name, place) = named(text);
    let (place, key) = match place.split_once(':') {
        Some((place, key)) => (place, Some(key)),
        None => (place, None),
    };
    let (namespace, secret) = place.split_once('/')?;
    if !valid_label(namespace) || !valid_name(secret) || key == Some("") {
        return None;
    }
    let name = name.unwrap_or_else(|| secret.strip_suffix(SECRET_SUFFIX).unwrap_or(secret));
    let source = RemoteSource::Secret {
        namespace: namespace.to_owned(),
        name: secret.to_owned(),
        key: key.map(str::to_owned),
    };
    Some(Remote { name: name.to_owned(), source })
}

/// Splits off the name before `=`, if any; a path may contain `=`, too.
fn named(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((name, rest)) if !name.contains('/') => (Some(name), rest),
        _ => (None, text),
    }
}

pub(super) fn registry(flags: &Flags, own: Option<&str>) -> Result<Option<Registry>, String> {
    if !flags.is_given("remote-selector") {
        return Ok(None);
    }
    let given = flags.text("remote-selector");
    let (namespace, selector) = match given.split_once(':') {
        Some((namespace, selector)) => (Some(namespace), selector.trim()),
        None => (own, given.trim()),
    };
    let namespace = namespace
        .ok_or("-remote-selector needs a namespace: set one in it, -namespace or POD_NAMESPACE")?;
    if selector.is_empty() || !valid_label(namespace) {
        return Err(format!("-remote-selector must be [NAMESPACE:]SELECTOR, got {given:?}"));
    }
    let selector = format!("{selector},{CLUSTER_LABEL}");
    Ok(Some(Registry { namespace: namespace.to_owned(), selector }))
}
