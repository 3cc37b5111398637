//! Status of an add-on on the hub, as far as this agent writes it.

use std::time::SystemTime;

use log::Level;
use serde_json::{Map, Value, json};
use shared::{
    client::Patch,
    error::{Error, Result},
    log_object,
};

use super::{MANAGED_CLUSTER_ADDONS, managed_cluster_addon::AddOn};
use crate::{
    agent::Agent,
    certificate::KUBE_API_SERVER_CLIENT,
    conditions::{Condition, guard, set},
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
    /// The patch that gives `addon` this status; `None` if it has it, or is no object.
    pub(super) fn patch(&self, addon: &Value, now: SystemTime) -> Option<Value> {
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
        // It replaces whole lists: a stale one must be rejected.
        let guard = guard(addon)?;
        (!patch.is_empty()).then(|| json!({"metadata": guard, "status": patch}))
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

/// Writes `wanted` into the status of an add-on that is still as it is `known`, and keeps what the hub answers; returns
/// whether there was something to write.
///
/// # Errors
/// As the hub says.
pub(super) fn write(
    agent: &Agent,
    session: &HubSession,
    (name, known): (&str, &AddOn),
    wanted: &AddOnStatus,
) -> Result<bool> {
    let Some(names) = agent.read(|state| state.names.clone()) else { return Ok(false) };
    let target = MANAGED_CLUSTER_ADDONS.object(&names.cluster, name);
    let object = match session.client.get(&target) {
        Err(Error::NotFound(_)) => {
            agent.update(|state| state.addons.remove_addon(name));
            return Ok(false);
        }
        object => object?,
    };
    // What the watch has not brought yet is judged anew.
    let is_as_known = AddOn::of(&object).as_ref() == Some(known);
    let patch = wanted.patch(&object, SystemTime::now()).filter(|_| is_as_known);
    let (object, written) = match patch {
        None => (object, false),
        Some(patch) => {
            let object = session.client.patch(&target.status(), Patch::Merge, &patch)?;
            for (kind, condition) in &wanted.conditions {
                let (kind, state) = (*kind, &*condition.status);
                log_object!(Level::Info, target, state = state; "condition {kind} reported");
            }
            (object, true)
        }
    };
    let addon = AddOn::of(&object);
    // The end of the session also forgets the add-ons.
    agent.update(|state| {
        if !session.stop.raised() {
            state.addons.set_addon(name, addon);
        }
    });
    Ok(written)
}

#[cfg(test)]
mod tests;
