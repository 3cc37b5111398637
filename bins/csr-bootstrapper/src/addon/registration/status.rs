//! Status of add-ons, as far as their registration is concerned: the driver, the user of a token, and conditions.

use std::{collections::BTreeSet, time::Instant};

use apiclient::{status_writer::StatusWriter, stop::Stop};

use super::service_account_user;
use crate::{
    addon::{
        managed_cluster_addon::{AddOn, ROTATED, RegistrationConfig},
        status::{self, AddOnStatus},
    },
    agent::Agent,
    certificate::KUBE_API_SERVER_CLIENT,
    conditions::Condition,
    identity::AgentNames,
    settings::KubeClientDriver,
    state::HubSession,
};

/// The type of a condition, and what it says.
pub(super) type Told = (&'static str, Condition);

/// Writes the status of add-ons, in one session.
pub(super) struct StatusReporter<'a> {
    agent: &'a Agent,
    session: &'a HubSession,
    writer: StatusWriter<String>,
    /// The hub does not know the field of these add-ons' driver: it is older than OCM 1.2.
    without_driver: BTreeSet<String>,
}

impl<'a> StatusReporter<'a> {
    pub(super) fn new(agent: &'a Agent, session: &'a HubSession) -> Self {
        Self { agent, session, writer: StatusWriter::default(), without_driver: BTreeSet::new() }
    }

    /// Forgets the other add-ons.
    pub(super) fn keep(&mut self, is_known: impl Fn(&str) -> bool) {
        self.writer.retain(|name| is_known(name));
        self.without_driver.retain(|name| is_known(name));
    }

    /// Writes the status if the hub has another one; returns when to come again.
    pub(super) fn report(
        &mut self,
        (name, addon): (&str, &AddOn),
        names: &AgentNames,
        told: Vec<Told>,
    ) -> Instant {
        let (now, later) = (Instant::now(), Instant::now() + Stop::SLICE);
        let driver = self.agent.settings.addon_driver;
        let token = matches!(driver, KubeClientDriver::Token { .. });
        let user = token.then(|| service_account_user(&names.cluster, name));
        let mut wanted = wanted(addon, driver.name(), user, told);
        if self.without_driver.contains(name) {
            wanted.driver = None;
        }
        let Some(due) = self.writer.due(&name.to_owned(), differs(addon, &wanted)) else {
            return later;
        };
        if now < due {
            return due;
        }
        let (hub, writer) = ((self.agent, self.session), &mut self.writer);
        let written = status::write(hub, (name, addon), &wanted, writer, "the registration is");
        if written.is_some_and(|written| wanted.driver != Some(&written.driver)) {
            self.without_driver.insert(name.to_owned());
        }
        now
    }
}

/// What the status of an add-on has to say, of which so much was `told`. Of two certificates that say different things
/// the one that failed is reported.
fn wanted(
    addon: &AddOn,
    driver: &'static str,
    user: Option<String>,
    told: Vec<Told>,
) -> AddOnStatus {
    let has_kube_client = kube_client(addon).is_some();
    let mut conditions: Vec<Told> = Vec::new();
    for (kind, condition) in told {
        match conditions.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, known)) if condition.status == "False" && known.status != "False" => {
                *known = condition;
            }
            Some(_) => {}
            None => conditions.push((kind, condition)),
        }
    }
    AddOnStatus {
        conditions,
        driver: Some(if has_kube_client { driver } else { "" }),
        user: user.filter(|_| has_kube_client),
    }
}

/// Returns whether the hub says something else.
fn differs(addon: &AddOn, wanted: &AddOnStatus) -> bool {
    let known = |kind: &str| match kind {
        ROTATED => addon.rotated,
        _ => addon.token_refreshed,
    };
    let subject = kube_client(addon).map(|config| &config.subject);
    let has_user = |user: &String| {
        let is_same = |it: &crate::certificate::Subject| {
            it.user == *user && it.groups.is_empty() && it.units.is_empty()
        };
        subject.is_some_and(is_same)
    };
    wanted.driver.is_some_and(|driver| driver != addon.driver)
        || wanted.user.as_ref().is_some_and(|user| !has_user(user))
        || wanted.conditions.iter().any(|(kind, condition)| known(kind) != Some(condition.digest()))
}

fn kube_client(addon: &AddOn) -> Option<&RegistrationConfig> {
    let mut all = addon.registrations.iter().flatten();
    all.find(|config| config.signer == KUBE_API_SERVER_CLIENT)
}

#[cfg(test)]
mod tests;
