//! Plan: which credentials add-ons need, and which Secrets nobody needs any more. No I/O, no clock.

use super::{Registration, RegistrationSecret, registrations, store::StoredRegistration};
use crate::{
    addon::{cache::KnownAddOns, managed_cluster_addon::AddOn},
    identity::AgentNames,
    settings::KubeClientDriver,
};

/// More registrations than this are left alone: each costs memory, and room in the store.
const MOST_REGISTRATIONS: usize = 500;

/// What is known at one moment.
#[derive(Clone, Copy)]
pub(super) struct PlanInputs<'a> {
    pub(super) addons: &'a KnownAddOns,
    pub(super) stored: &'a [(RegistrationSecret, StoredRegistration)],
    pub(super) names: &'a AgentNames,
    pub(super) driver: KubeClientDriver,
    /// The spoke is another cluster than the management cluster.
    pub(super) apart: bool,
}

/// What has to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// In the order of the add-ons' names.
    pub(super) wanted: Vec<Registration>,
    /// There are more than may be.
    pub(super) too_many: bool,
    /// The Secrets to remove.
    pub(super) obsolete: Vec<RegistrationSecret>,
}

/// Plans for all add-ons.
pub(super) fn plan(inputs: &PlanInputs<'_>) -> Plan {
    let mut wanted = inputs.wanted();
    let too_many = wanted.len() > MOST_REGISTRATIONS;
    wanted.truncate(MOST_REGISTRATIONS);
    let is_obsolete = |secret: &RegistrationSecret, stored: &StoredRegistration| {
        let placed = inputs.placed(secret.clone());
        wanted.iter().all(|one| one.secret != placed) && inputs.is_obsolete(&placed, stored)
    };
    let obsolete = inputs.stored.iter().filter(|(secret, stored)| is_obsolete(secret, stored));
    let obsolete = obsolete.map(|(secret, _)| secret.clone()).collect();
    Plan { wanted, too_many, obsolete }
}

impl PlanInputs<'_> {
    /// The registrations of all add-ons, and no more than one beyond what may be. One that is about to be deleted gets no
    /// new ones: its agent may still need those that it has.
    fn wanted(&self) -> Vec<Registration> {
        let is_stored = |one: &Registration| {
            self.stored.iter().any(|(secret, _)| self.placed(secret.clone()) == one.secret)
        };
        let all = self.addons.by_name.iter().flat_map(|(name, addon)| {
            let all = self.registrations(name, addon);
            all.filter(move |one| !addon.terminating || is_stored(one))
        });
        all.take(MOST_REGISTRATIONS + 1).collect()
    }

    /// Returns whether nobody needs this Secret for certain: its add-on is gone from the hub, or does not name it any
    /// more. That add-ons have too many is no reason.
    fn is_obsolete(&self, secret: &RegistrationSecret, stored: &StoredRegistration) -> bool {
        let Some(addon) = self.addons.by_name.get(&stored.addon) else {
            return self.addons.is_gone(&stored.addon);
        };
        !addon.terminating
            && addon.registrations.is_some()
            && self.registrations(&stored.addon, addon).all(|one| one.secret != *secret)
    }

    /// The registrations of an add-on, with the Secrets where they are.
    fn registrations(&self, name: &str, addon: &AddOn) -> impl Iterator<Item = Registration> {
        let all = registrations(name, addon, self.names, self.driver);
        let place = |one: Registration| Registration { secret: self.placed(one.secret), ..one };
        all.into_iter().map(place)
    }

    /// The Secret where it is: where the spoke is the management cluster, that of a hosted add-on is at the same place as
    /// that of any other.
    fn placed(&self, mut secret: RegistrationSecret) -> RegistrationSecret {
        secret.namespace.hosted &= self.apart;
        secret
    }
}

#[cfg(test)]
mod tests;
