//! Status of an add-on on the hub, as far as this agent writes it.

use std::time::SystemTime;

use apiclient::{
    error::{Error, Result},
    log_object,
    resource::Target,
    status_writer::{StatusWriter, patch_status},
};
use log::Level;
use serde_json::{Map, Value, json};

use super::{MANAGED_CLUSTER_ADDONS, managed_cluster_addon::AddOn};
use crate::{
    agent::Agent,
    certificate::KUBE_API_SERVER_CLIENT,
    conditions::{Condition, set},
    state::HubSession,
};

/// What this agent wants in the status; the rest stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AddOnStatus {
    pub(super) conditions: Vec<(&'static str, Condition)>,
    /// `kubeClientDriver`; empty for none.
    pub(super) driver: Option<&'static str>,
    /// The user of the registration for the hub's API server.
    pub(super) user: Option<String>,
}

impl AddOnStatus {
    /// What has to change in the status of `addon`.
    pub(super) fn differences(&self, addon: &Value, now: SystemTime) -> Map<String, Value> {
        let status = &addon["status"];
        let mut patch = Map::new();
        let before = status["conditions"].as_array().cloned().unwrap_or_default();
        let mut conditions = before.clone();
        for (kind, Condition { status, reason, message }) in &self.conditions {
            set(&mut conditions, [kind, status, reason, message], now);
        }
        if conditions != before {
            patch.insert("conditions".into(), json!(conditions));
        }
        let driver = status["kubeClientDriver"].as_str().unwrap_or_default();
        if let Some(wanted) = self.driver.filter(|wanted| *wanted != driver) {
            let wanted = Some(wanted).filter(|wanted| !wanted.is_empty());
            patch.insert("kubeClientDriver".into(), json!(wanted));
        }
        if let Some(registrations) = self.registrations(&status["registrations"]) {
            patch.insert("registrations".into(), registrations);
        }
        patch
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
}

/// Writes `wanted` into the status of an add-on, if that is still as `known`, at the pace of `writer`. Keeps the hub's
/// answer, and returns the add-on after a write. A failure is logged as "`what` not reported".
pub(super) fn write(
    (agent, session): (&Agent, &HubSession),
    (name, known): (&str, &AddOn),
    wanted: &AddOnStatus,
    writer: &mut StatusWriter<String>,
    what: &str,
) -> Option<AddOn> {
    let target = MANAGED_CLUSTER_ADDONS.object(&session.names.cluster, name);
    match try_write((agent, session), &target, (name, known), wanted) {
        Ok(written) => {
            writer.wrote(&name.to_owned());
            written
        }
        Err(error) => {
            let level = writer.failed(&name.to_owned(), &error);
            log_object!(level, target, error:% = error; "{what} not reported");
            None
        }
    }
}

fn try_write(
    (agent, session): (&Agent, &HubSession),
    target: &Target<'_>,
    (name, known): (&str, &AddOn),
    wanted: &AddOnStatus,
) -> Result<Option<AddOn>> {
    let revision = agent.read(|state| state.addons.revision());
    let object = match session.client.get(target) {
        Err(Error::NotFound(_)) => {
            agent.update(|state| state.addons.answered(revision, name, None));
            return Ok(None);
        }
        object => object?,
    };
    // What the watch has not brought yet is judged anew.
    let is_as_known = AddOn::of(&object).as_ref() == Some(known);
    let status = wanted.differences(&object, SystemTime::now());
    let is_written = is_as_known && !status.is_empty();
    let object = match is_written {
        true => patch_status(&session.client, target, &object, &status)?,
        false => object,
    };
    for (kind, condition) in wanted.conditions.iter().filter(|_| is_written) {
        let (kind, state) = (*kind, &*condition.status);
        log_object!(Level::Info, target, state = state; "condition {kind} reported");
    }
    let addon = AddOn::of(&object);
    agent.update(|state| state.addons.answered(revision, name, Some(addon.clone())));
    Ok(addon.filter(|_| is_written))
}

#[cfg(test)]
mod tests;
