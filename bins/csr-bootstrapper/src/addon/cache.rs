//! Add-ons, as the threads know them: no I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use super::managed_cluster_addon::AddOn;

/// More add-ons than this are left alone: each costs memory, and a hub may list any number.
pub(super) const MAX_ADDONS: usize = 500;
/// Nor may the texts of all their registrations be longer: a few add-ons could fill the memory, and the store of pending
/// requests, otherwise. The longest count as unreadable.
const MAX_TOTAL_LENGTH: usize = 256 << 10;

/// An add-on whose hosting cluster is no longer named counts as hosted for this long: whoever replaces the object may put the
/// annotation back (open-cluster-management-io/ocm#1677).
const UNHOSTED_TIMEOUT: Duration = Duration::from_secs(5);

/// The add-ons of the current session.
#[derive(Default)]
pub(crate) struct AddOns {
    by_name: BTreeMap<String, Arc<AddOn>>,
    /// Names of those that exist and cannot be read.
    unreadable: BTreeSet<String>,
    /// All add-ons of the cluster are known: what is not here does not exist.
    complete: bool,
    /// There is room again for an add-on that was left out; only a list brings it.
    list_again: bool,
    /// Changes of the add-ons so far.
    revision: u64,
    /// Until when add-ons count as hosted that are not any more.
    unhosted: BTreeMap<String, Instant>,
}

/// The add-ons at one moment.
#[derive(Clone, Default)]
pub(super) struct KnownAddOns {
    pub(super) by_name: BTreeMap<String, Arc<AddOn>>,
    unreadable: BTreeSet<String>,
    complete: bool,
    revision: u64,
}

impl KnownAddOns {
    /// Returns whether the add-on is gone for certain.
    pub(super) fn is_gone(&self, name: &str) -> bool {
        self.complete && !self.by_name.contains_key(name) && !self.unreadable.contains(name)
    }
}

impl AddOns {
    /// Replaces all add-ons by those of a complete list; returns whether there are too many.
    pub(super) fn replace_addons(&mut self, all: Vec<(String, Option<AddOn>)>) -> bool {
        let (before, unhosted) =
            (std::mem::take(&mut self.by_name), std::mem::take(&mut self.unhosted));
        self.clear();
        (self.complete, self.unhosted) = (true, unhosted);
        let mut too_many = false;
        for (name, addon) in all {
            let before = before.get(&name).cloned();
            too_many |= self.insert(name, addon, before);
        }
        self.unhosted.retain(|name, _| self.by_name.contains_key(name));
        too_many
    }

    /// Inserts an add-on (`None`: unparsable); returns whether the limit is exceeded.
    pub(super) fn set_addon(&mut self, name: &str, addon: Option<AddOn>) -> bool {
        let before = self.by_name.get(name).cloned();
        let length = |addon: Option<&AddOn>| addon.map_or(0, AddOn::length);
        let shrinks = length(addon.as_ref()) < length(before.as_deref());
        let too_many = self.insert(name.to_owned(), addon, before);
        self.list_again |= shrinks && self.leaves_out();
        too_many
    }

    /// Removes an add-on that is gone from the hub.
    pub(super) fn remove_addon(&mut self, name: &str) {
        self.by_name.remove(name);
        self.unreadable.remove(name);
        self.unhosted.remove(name);
        self.revision += 1;
        self.list_again |= self.leaves_out();
    }

    /// Returns whether some add-on may be left out for want of room.
    fn leaves_out(&self) -> bool {
        !self.complete || !self.unreadable.is_empty()
    }

    /// Returns, once for each change, whether there may be room for an add-on that was left out.
    pub(super) fn wants_list(&mut self) -> bool {
        std::mem::take(&mut self.list_again)
    }

    /// Changes of the add-ons so far.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Stores the response to a request sent at `revision` (`None`: the add-on does not exist), unless the watch has
    /// changed anything since.
    pub(super) fn answered(&mut self, revision: u64, name: &str, answer: Option<Option<AddOn>>) {
        if self.revision == revision {
            match answer {
                Some(addon) => drop(self.set_addon(name, addon)),
                None => self.remove_addon(name),
            }
        }
    }

    /// Forgets all add-ons: nothing is known of them, as at the end of a session.
    pub(crate) fn clear(&mut self) {
        self.by_name.clear();
        self.unreadable.clear();
        self.unhosted.clear();
        (self.complete, self.list_again) = (false, false);
        self.revision += 1;
    }

    /// Moves the add-ons whose moment is over; returns when that of the next is.
    pub(super) fn settle(&mut self, now: Instant) -> Option<Instant> {
        let is_due = |(_, until): &(&String, &Instant)| now >= **until;
        let due: Vec<String> =
            self.unhosted.iter().filter(is_due).map(|(name, _)| name.clone()).collect();
        for name in due {
            self.unhosted.remove(&name);
            if let Some(addon) = self.by_name.get_mut(&name).map(Arc::make_mut) {
                (addon.namespace.hosted, addon.hosting_cluster) = (false, None);
                self.revision += 1;
            }
        }
        self.unhosted.values().min().copied()
    }

    /// Lets an add-on count as hosted for a moment, if it was `before`.
    fn keep_hosted(&mut self, name: &str, addon: &mut AddOn, before: Option<Arc<AddOn>>) {
        match before.filter(|before| before.namespace.hosted && !addon.namespace.hosted) {
            None => drop(self.unhosted.remove(name)),
            Some(before) => {
                addon.namespace.hosted = true;
                addon.hosting_cluster.clone_from(&before.hosting_cluster);
                self.unhosted
                    .entry(name.to_owned())
                    .or_insert_with(|| Instant::now() + UNHOSTED_TIMEOUT);
            }
        }
    }

    fn insert(
        &mut self,
        name: String,
        mut addon: Option<AddOn>,
        before: Option<Arc<AddOn>>,
    ) -> bool {
        self.revision += 1;
        if let Some(addon) = &mut addon {
            self.keep_hosted(&name, addon, before);
        }
        self.by_name.remove(&name);
        self.unreadable.remove(&name);
        if self.by_name.len() + self.unreadable.len() >= MAX_ADDONS {
            self.complete = false;
            return true;
        }
        match addon {
            Some(addon) => drop(self.by_name.insert(name, Arc::new(addon))),
            None => drop(self.unreadable.insert(name)),
        }
        self.leave_longest()
    }

    /// Leaves out the longest add-ons until the others have room; returns whether there was one.
    fn leave_longest(&mut self) -> bool {
        let mut length: usize = self.by_name.values().map(|addon| addon.length()).sum();
        let too_long = length > MAX_TOTAL_LENGTH;
        while length > MAX_TOTAL_LENGTH {
            let longest = self.by_name.iter().max_by_key(|(_, addon)| addon.length());
            let Some(name) = longest.map(|(name, _)| name.clone()) else { break };
            length -= self.by_name.remove(&name).map_or(0, |addon| addon.length());
            self.unreadable.insert(name);
        }
        too_long
    }

    /// The add-ons, unless they are the same as `before`.
    pub(super) fn since(&self, before: &KnownAddOns) -> Option<KnownAddOns> {
        (before.revision != self.revision).then(|| KnownAddOns {
            by_name: self.by_name.clone(),
            unreadable: self.unreadable.clone(),
            complete: self.complete,
            revision: self.revision,
        })
    }

    /// The add-ons whose availability is that of their Lease.
    pub(super) fn by_lease(&self) -> Vec<(String, Arc<AddOn>)> {
        let by_lease = self.by_name.iter().filter(|(_, addon)| !addon.customized);
        by_lease.map(|(name, addon)| (name.clone(), addon.clone())).collect()
    }
}

/// Does the same to the add-ons of a list that has not ended.
pub(super) fn leave_longest(listed: &mut [(String, Option<AddOn>)]) {
    let length = |addon: &Option<AddOn>| addon.as_ref().map_or(0, AddOn::length);
    while listed.iter().map(|(_, addon)| length(addon)).sum::<usize>() > MAX_TOTAL_LENGTH {
        let longest = listed.iter_mut().max_by_key(|(_, addon)| length(addon));
        longest.into_iter().for_each(|(_, addon)| *addon = None);
    }
}

#[cfg(test)]
mod tests;
