//! Add-ons and their Leases, as the threads know them: no I/O.

use std::collections::{BTreeMap, BTreeSet};

use super::availability::{AddOn, AddOnLease, LeaseNamespace};

/// More add-ons than this are left alone: each costs memory, and a hub may list any number.
pub(super) const MOST_ADDONS: usize = 500;
/// More namespaces than this are not watched: each costs a thread and a connection.
const MOST_NAMESPACES: usize = 16;

/// The add-ons of the current session, and what is known of their Leases.
#[derive(Default)]
pub(crate) struct AddOns {
    by_name: BTreeMap<String, AddOn>,
    watched: BTreeSet<LeaseNamespace>,
    leases: BTreeMap<(LeaseNamespace, String), AddOnLease>,
}

impl AddOns {
    /// Replaces all add-ons; returns whether there are too many.
    pub(super) fn replace_addons(&mut self, mut all: BTreeMap<String, AddOn>) -> bool {
        let too_many = all.len() > MOST_ADDONS;
        while all.len() > MOST_ADDONS {
            all.pop_last();
        }
        self.by_name = all;
        self.forget_leases();
        too_many
    }

    /// Sets an add-on, or removes it with `None`; returns whether that is one too many.
    pub(super) fn set_addon(&mut self, name: &str, addon: Option<AddOn>) -> bool {
        let is_new = !self.by_name.contains_key(name);
        match addon {
            Some(_) if is_new && self.by_name.len() >= MOST_ADDONS => return true,
            Some(addon) => drop(self.by_name.insert(name.to_owned(), addon)),
            None => drop(self.by_name.remove(name)),
        }
        self.forget_leases();
        false
    }

    /// Returns whether the health of some add-on is told by its Lease.
    pub(super) fn any(&self) -> bool {
        self.by_name.values().any(|addon| !addon.customized)
    }

    /// Each add-on whose health is told by a Lease that is watched, with that Lease as far as it is known.
    pub(super) fn with_leases(&self) -> Vec<(String, AddOn, Option<AddOnLease>)> {
        let is_watched = |addon: &AddOn| !addon.customized && self.watched.contains(&addon.leases);
        let by_lease = self.by_name.iter().filter(|(_, addon)| is_watched(addon));
        let with = by_lease.map(|(name, addon)| {
            let lease = self.leases.get(&(addon.leases.clone(), name.clone())).copied();
            (name.clone(), addon.clone(), lease)
        });
        with.collect()
    }

    /// Returns whether the Lease of some add-on is in this namespace.
    pub(super) fn uses(&self, namespace: &LeaseNamespace) -> bool {
        self.by_name.values().any(|addon| !addon.customized && addon.leases == *namespace)
    }

    /// A namespace that has to be watched and is not, which counts as watched from now on.
    pub(super) fn next_unwatched(&mut self) -> Option<LeaseNamespace> {
        let mut wanted = self.by_name.values().filter(|addon| !addon.customized);
        let next = wanted.find(|addon| !self.watched.contains(&addon.leases))?.leases.clone();
        if self.watched.len() >= MOST_NAMESPACES {
            return None;
        }
        self.watched.insert(next.clone());
        Some(next)
    }

    /// The watch of this namespace has ended.
    pub(super) fn unwatch(&mut self, namespace: &LeaseNamespace) {
        self.watched.remove(namespace);
        self.leases.retain(|(of, _), _| of != namespace);
    }

    /// Sets the Lease of this name, if an add-on has such a one; returns whether it is another than before.
    pub(super) fn set_lease(
        &mut self,
        namespace: &LeaseNamespace,
        name: &str,
        lease: AddOnLease,
    ) -> bool {
        let addon = self.by_name.get(name);
        addon.is_some_and(|addon| addon.leases == *namespace)
            && self.leases.insert((namespace.clone(), name.to_owned()), lease) != Some(lease)
    }

    /// The same, unless something is known of it by now.
    pub(super) fn set_unknown_lease(
        &mut self,
        namespace: &LeaseNamespace,
        name: &str,
        lease: AddOnLease,
    ) {
        if !self.leases.contains_key(&(namespace.clone(), name.to_owned())) {
            self.set_lease(namespace, name, lease);
        }
    }

    /// The Leases that a list of this namespace is about: none of them is known to exist.
    pub(super) fn leases_in(&self, namespace: &LeaseNamespace) -> BTreeMap<String, AddOnLease> {
        let here = self.by_name.iter().filter(|(_, addon)| addon.leases == *namespace);
        here.map(|(name, _)| (name.clone(), AddOnLease::Absent)).collect()
    }

    /// Forgets the Leases of add-ons that are gone, or have moved.
    fn forget_leases(&mut self) {
        let Self { by_name, leases, .. } = self;
        leases.retain(|(namespace, name), _| {
            by_name.get(name).is_some_and(|addon| addon.leases == *namespace)
        });
    }
}

#[cfg(test)]
mod tests;
