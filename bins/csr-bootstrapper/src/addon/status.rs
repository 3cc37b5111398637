//! Status of an add-on on the hub, as far as this agent writes it.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Instant, SystemTime},
};

use apiclient::{error::Result, log_object, status_writer::patch_status};
use log::Level;
use serde_json::{Map, Value, json};

use super::{MANAGED_CLUSTER_ADDONS, managed_cluster_addon::AddOn};
use crate::{
    certificate::{KUBE_API_SERVER_CLIENT, Subject, store},
    conditions::{Condition, TypedCondition, changed},
    state::HubSession,
};

/// What this agent wants in the status; the rest stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AddOnStatus {
    /// By type.
    pub(super) conditions: BTreeMap<&'static str, Condition>,
    /// `kubeClientDriver`; empty for none.
    pub(super) driver: Option<&'static str>,
    /// The user of the registration for the hub's API server.
    pub(super) user: Option<String>,
}

impl AddOnStatus {
    /// Adds a condition. If several certificates report the same one, a failure wins.
    pub(super) fn add(&mut self, (kind, condition): TypedCondition) {
        let known = self.conditions.get(kind);
        if known.is_none_or(|known| known.status != "False" && condition.status == "False") {
            self.conditions.insert(kind, condition);
        }
    }

    /// Reports how the agent gets a credential for the hub's API server, if it needs one.
    pub(super) fn set_driver(&mut self, addon: &AddOn, driver: &'static str, user: Option<String>) {
        let has_kube_client = addon.kube_client().is_some();
        self.driver = Some(if has_kube_client { driver } else { "" });
        self.user = user.filter(|_| has_kube_client);
    }

    /// Returns whether the hub has something else.
    pub(super) fn differs_from(&self, addon: &AddOn) -> bool {
        let has_user = |user: &String| {
            let subject = Subject { user: user.clone(), ..Subject::default() };
            addon.kube_client().is_some_and(|config| config.subject == subject)
        };
        self.driver.is_some_and(|driver| driver != addon.driver)
            || self.user.as_ref().is_some_and(|user| !has_user(user))
            || self
                .conditions
                .iter()
                .any(|(kind, it)| addon.conditions.get(kind) != Some(&it.digest()))
    }

    /// What has to change in the status of `addon`.
    fn patch(&self, addon: &Value, now: SystemTime) -> Map<String, Value> {
        let status = &addon["status"];
        let wanted = self.conditions.iter().map(|(kind, condition)| (*kind, condition));
        let conditions = changed(status, wanted, now);
        let known = status["kubeClientDriver"].as_str().unwrap_or_default();
        let driver = self.driver.filter(|driver| *driver != known);
        let driver = driver.map(|driver| json!(Some(driver).filter(|driver| !driver.is_empty())));
        let registrations = self.registrations(&status["registrations"]);
        let fields = [
            ("conditions", conditions),
            ("kubeClientDriver", driver),
            ("registrations", registrations),
        ];
        fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?))).collect()
    }

    /// The registrations with the wanted user; `None` if they have it.
    fn registrations(&self, before: &Value) -> Option<Value> {
        let subject = json!({"user": self.user.as_ref()?});
        let mut registrations = before.clone();
        let mut all = registrations.as_array_mut()?.iter_mut();
        let ours = all.find(|one| one["signerName"] == KUBE_API_SERVER_CLIENT)?;
        let differs = ours["subject"] != subject;
        ours["subject"] = subject;
        differs.then_some(registrations)
    }

    /// Writes this into the status of an add-on, if that is still as `known`. Keeps the hub's answer, and returns the
    /// add-on after a write.
    ///
    /// # Errors
    /// As the hub says; `Conflict` if it changed meanwhile.
    pub(super) fn write(
        &self,
        session: &HubSession,
        name: &str,
        known: &AddOn,
    ) -> Result<Option<AddOn>> {
        let target = MANAGED_CLUSTER_ADDONS.object(&session.names.cluster, name);
        let (client, addons) = (&session.client, &session.addons);
        let revision = addons.revision();
        let Some(object) = store::read(client, &target)? else {
            addons.put(revision, name, None);
            return Ok(None);
        };
        let read = |object: &Value| Some(AddOn::of(object)?.following(Some(known), Instant::now()));
        // What the watch has not brought yet is judged anew.
        let is_as_known = read(&object).as_ref() == Some(known);
        let status = self.patch(&object, SystemTime::now());
        let is_written = is_as_known && !status.is_empty();
        let object = match is_written {
            true => patch_status(client, &target, &object, &status)?,
            false => object,
        };
        for (kind, condition) in self.conditions.iter().filter(|_| is_written) {
            let state = &*condition.status;
            log_object!(Level::Info, target, state = state; "condition {kind} reported");
        }
        let addon = read(&object);
        if let Some(addon) = &addon {
            addons.put(revision, name, Some(Arc::new(addon.clone())));
        }
        Ok(addon.filter(|_| is_written))
    }
}

#[cfg(test)]
mod tests;
