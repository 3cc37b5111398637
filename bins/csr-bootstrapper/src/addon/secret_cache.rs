//! Versions of the Secrets of registrations, as their watches tell: no I/O.

use super::{managed_cluster_addon::AddOnNamespace, registration::RegistrationSecret};
use crate::cached::CachedObject;

/// More namespaces than this are not watched: each costs a thread and a connection. Secrets elsewhere are read every few
/// minutes.
const MAX_NAMESPACES: usize = 16;

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

/// The Secrets that are kept for add-ons, and what is known of them. Lists: a BTreeMap of each would be tens of KiB of
/// code.
#[derive(Default)]
pub(crate) struct AddOnSecrets {
    all: Vec<(RegistrationSecret, WatchedSecret)>,
    /// The namespaces that are watched, and whether that watch is open.
    watched: Vec<(AddOnNamespace, bool)>,
}

impl AddOnSecrets {
    /// Keeps these Secrets and no others.
    pub(super) fn keep<'a>(&mut self, secrets: impl Iterator<Item = &'a RegistrationSecret>) {
        let mut before = std::mem::take(&mut self.all);
        for secret in secrets {
            let known = before.iter().position(|(known, _)| known == secret);
            let known = known.map(|index| before.swap_remove(index));
            self.all.push(known.unwrap_or_else(|| (secret.clone(), WatchedSecret::default())));
        }
    }

    pub(super) fn watched(&self, secret: &RegistrationSecret) -> WatchedSecret {
        let known = self.all.iter().find(|(known, _)| known == secret);
        known.map(|(_, watched)| watched.clone()).unwrap_or_default()
    }

    fn get_mut(&mut self, secret: &RegistrationSecret) -> Option<&mut WatchedSecret> {
        let known = self.all.iter_mut().find(|(known, _)| known == secret);
        known.map(|(_, watched)| watched)
    }

    /// Sets the state of this Secret, if it is kept; returns whether it is another than before.
    pub(super) fn set(&mut self, secret: &RegistrationSecret, version: SecretVersion) -> bool {
        let known = self.get_mut(secret);
        let Some(known) = known.filter(|known| known.version.as_ref() != Some(&version)) else {
            return false;
        };
        known.version = Some(version);
        known.changes += 1;
        true
    }

    /// Records the result of a GET, until the watch reports this Secret.
    pub(super) fn set_unknown(&mut self, secret: &RegistrationSecret, version: SecretVersion) {
        if self.watched.contains(&(secret.namespace.clone(), true))
            && let Some(known) = self.get_mut(secret)
        {
            known.version.get_or_insert(version);
        }
    }

    /// The names of the Secrets that a list of this namespace is about: none of them is known to exist.
    pub(super) fn listed(&self, namespace: &AddOnNamespace) -> Vec<(String, SecretVersion)> {
        let here = self.all.iter().filter(|(secret, _)| secret.namespace == *namespace);
        here.map(|(secret, _)| (secret.name.clone(), SecretVersion::Absent)).collect()
    }

    /// Records that the watch of this namespace is open, or tells nothing for now.
    pub(super) fn set_open(&mut self, namespace: &AddOnNamespace, open: bool) {
        self.watched.iter_mut().filter(|(of, _)| of == namespace).for_each(|(_, is)| *is = open);
        if !open {
            let mine = self.all.iter_mut().filter(|(secret, _)| secret.namespace == *namespace);
            mine.for_each(|(_, known)| known.version = None);
        }
    }

    /// Returns whether a Secret in this namespace is kept.
    pub(super) fn uses(&self, namespace: &AddOnNamespace) -> bool {
        self.all.iter().any(|(secret, _)| secret.namespace == *namespace)
    }

    /// A namespace that has to be watched and is not, which counts as watched from now on.
    pub(super) fn next_unwatched(&mut self) -> Option<AddOnNamespace> {
        let is_watched = |of: &AddOnNamespace| self.watched.iter().any(|(known, _)| known == of);
        let mut namespaces = self.all.iter().map(|(secret, _)| &secret.namespace);
        let next = namespaces.find(|namespace| !is_watched(namespace))?.clone();
        if self.watched.len() >= MAX_NAMESPACES {
            return None;
        }
        self.watched.push((next.clone(), false));
        Some(next)
    }

    /// The watch of this namespace has ended.
    pub(super) fn unwatch(&mut self, namespace: &AddOnNamespace) {
        self.set_open(namespace, false);
        self.watched.retain(|(of, _)| of != namespace);
    }
}

#[cfg(test)]
mod tests;
