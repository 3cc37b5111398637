//! Versions of the Secrets of registrations, as their watches tell: no I/O.

use std::collections::{BTreeMap, BTreeSet};

use super::{managed_cluster_addon::AddOnNamespace, registration::RegistrationSecret};
use crate::cached::CachedObject;

/// More namespaces than this are not watched: each costs a thread and a connection. Secrets elsewhere are read every few
/// minutes.
const MOST_NAMESPACES: usize = 16;

/// The state of a Secret, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SecretVersion {
    Absent,
    /// With this resourceVersion.
    At(String),
}

impl SecretVersion {
    pub(super) fn of(object: &CachedObject) -> Self {
        let CachedObject::Object(object) = object else { return Self::Absent };
        Self::At(object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
    }
}

/// What the watch of a Secret tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchedSecret {
    /// `None` while no watch tells.
    pub(super) version: Option<SecretVersion>,
    /// Changes of that so far.
    pub(super) changes: u64,
}

/// The Secrets that are kept for add-ons, and what is known of them.
#[derive(Default)]
pub(crate) struct AddOnSecrets {
    versions: BTreeMap<RegistrationSecret, WatchedSecret>,
    /// The namespaces that are watched, and whether that watch is open.
    watched: BTreeMap<AddOnNamespace, bool>,
}

impl AddOnSecrets {
    /// Keeps these Secrets and no others.
    pub(super) fn keep(&mut self, secrets: &BTreeSet<RegistrationSecret>) {
        self.versions.retain(|secret, _| secrets.contains(secret));
        for secret in secrets {
            self.versions.entry(secret.clone()).or_default();
        }
    }

    pub(super) fn watched(&self, secret: &RegistrationSecret) -> WatchedSecret {
        self.versions.get(secret).cloned().unwrap_or_default()
    }

    /// Sets the state of this Secret, if it is kept; returns whether it is another than before.
    pub(super) fn set(&mut self, secret: &RegistrationSecret, version: SecretVersion) -> bool {
        let known = self.versions.get_mut(secret);
        let Some(known) = known.filter(|known| known.version.as_ref() != Some(&version)) else {
            return false;
        };
        known.version = Some(version);
        known.changes += 1;
        true
    }

    /// The same by a read, which counts while a watch is open that has said nothing about it.
    pub(super) fn set_unknown(&mut self, secret: &RegistrationSecret, version: SecretVersion) {
        if self.watched.get(&secret.namespace) == Some(&true)
            && let Some(known) = self.versions.get_mut(secret)
        {
            known.version.get_or_insert(version);
        }
    }

    /// The Secrets that a list of this namespace is about: none of them is known to exist.
    pub(super) fn listed(&self, namespace: &AddOnNamespace) -> BTreeMap<String, SecretVersion> {
        let here = self.versions.keys().filter(|secret| secret.namespace == *namespace);
        here.map(|secret| (secret.name.clone(), SecretVersion::Absent)).collect()
    }

    /// Records that the watch of this namespace is open, or tells nothing for now.
    pub(super) fn set_open(&mut self, namespace: &AddOnNamespace, open: bool) {
        self.watched.insert(namespace.clone(), open);
        if !open {
            let all = self.versions.iter_mut();
            let mine = all.filter(|(secret, _)| secret.namespace == *namespace);
            mine.for_each(|(_, known)| known.version = None);
        }
    }

    /// Returns whether a Secret in this namespace is kept.
    pub(super) fn uses(&self, namespace: &AddOnNamespace) -> bool {
        self.versions.keys().any(|secret| secret.namespace == *namespace)
    }

    /// A namespace that has to be watched and is not, which counts as watched from now on.
    pub(super) fn next_unwatched(&mut self) -> Option<AddOnNamespace> {
        let mut namespaces = self.versions.keys().map(|secret| &secret.namespace);
        let next = namespaces.find(|namespace| !self.watched.contains_key(*namespace))?.clone();
        if self.watched.len() >= MOST_NAMESPACES {
            return None;
        }
        self.watched.insert(next.clone(), false);
        Some(next)
    }

    /// The watch of this namespace has ended.
    pub(super) fn unwatch(&mut self, namespace: &AddOnNamespace) {
        self.set_open(namespace, false);
        self.watched.remove(namespace);
    }
}

#[cfg(test)]
mod tests;
