//! Status of an add-on on the hub, as far as this agent writes it.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use apiclient::{
    error::Result,
    log_object,
    resource::Target,
    status_writer::{StatusWriter, patch_status},
};
use log::Level;
use serde_json::{Map, Value, json};

use super::{
    MANAGED_CLUSTER_ADDONS,
    managed_cluster_addon::{AVAILABLE, AddOn, ROTATED},
    registration::AddOnContext,
};
use crate::{
    certificate::store,
    certificate::{KUBE_API_SERVER_CLIENT, Subject},
    conditions::{Condition, set},
};

/// The type of a condition, and what it says.
pub(super) type TypedCondition = (&'static str, Condition);

/// What this agent wants in the status; the rest stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AddOnStatus {
    pub(super) conditions: Vec<TypedCondition>,
    /// `kubeClientDriver`; empty for none.
    pub(super) driver: Option<&'static str>,
    /// The user of the registration for the hub's API server.
    pub(super) user: Option<String>,
}

impl AddOnStatus {
    /// The desired status. If several certificates report the same condition, a failure wins.
    pub(super) fn of(
        addon: &AddOn,
        all: Vec<TypedCondition>,
        driver: &'static str,
        user: Option<String>,
    ) -> Self {
        let mut conditions: Vec<TypedCondition> = Vec::new();
        for (kind, condition) in all {
            match conditions.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, known)) if condition.status == "False" && known.status != "False" => {
                    *known = condition;
                }
                Some(_) => {}
                None => conditions.push((kind, condition)),
            }
        }
        let has_kube_client = addon.kube_client().is_some();
        Self {
            conditions,
            driver: Some(if has_kube_client { driver } else { "" }),
            user: user.filter(|_| has_kube_client),
        }
    }

    /// Returns whether the hub says something else.
    pub(super) fn differs_from(&self, addon: &AddOn) -> bool {
        let known = |kind: &str| match kind {
            AVAILABLE => addon.available,
            ROTATED => addon.rotated,
            _ => addon.token_refreshed,
        };
        let is_told = |user: &String| {
            let subject = Subject { user: user.clone(), ..Subject::default() };
            addon.kube_client().is_some_and(|config| config.subject == subject)
        };
        self.driver.is_some_and(|driver| driver != addon.driver)
            || self.user.as_ref().is_some_and(|user| !is_told(user))
            || self.conditions.iter().any(|(kind, it)| known(kind) != Some(it.digest()))
    }

    /// What has to change in the status of `addon`.
    fn patch(&self, addon: &Value, now: SystemTime) -> Map<String, Value> {
        let status = &addon["status"];
        let mut patch = Map::new();
        let before = status["conditions"].as_array().cloned().unwrap_or_default();
        let mut conditions = before.clone();
        for (kind, condition) in &self.conditions {
            set(&mut conditions, kind, condition, now);
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
/// answer, and returns the add-on after a write.
pub(super) fn write(
    context: AddOnContext<'_>,
    (name, known): (&String, &AddOn),
    wanted: &AddOnStatus,
    writer: &mut StatusWriter<String>,
) -> Option<AddOn> {
    let target = MANAGED_CLUSTER_ADDONS.object(&context.session.names.cluster, name);
    match try_write(context, &target, (name, known), wanted) {
        Ok(written) => {
            writer.wrote(name);
            written
        }
        Err(error) => {
            let level = writer.failed(name, &error);
            log_object!(level, target, error:% = error; "the status of an add-on is not reported");
            None
        }
    }
}

fn try_write(
    AddOnContext { session, .. }: AddOnContext<'_>,
    target: &Target<'_>,
    (name, known): (&str, &AddOn),
    wanted: &AddOnStatus,
) -> Result<Option<AddOn>> {
    let addons = &session.addons;
    let revision = addons.revision();
    let Some(object) = store::read(&session.client, target)? else {
        addons.put(revision, name, None);
        return Ok(None);
    };
    let read = |object: &Value| Some(AddOn::of(object)?.following(Some(known), Instant::now()));
    // What the watch has not brought yet is judged anew.
    let is_as_known = read(&object).as_ref() == Some(known);
    let status = wanted.patch(&object, SystemTime::now());
    let is_written = is_as_known && !status.is_empty();
    let object = match is_written {
        true => patch_status(&session.client, target, &object, &status)?,
        false => object,
    };
    for (kind, condition) in wanted.conditions.iter().filter(|_| is_written) {
        let (kind, state) = (*kind, &*condition.status);
        log_object!(Level::Info, target, state = state; "condition {kind} reported");
    }
    let addon = read(&object);
    if let Some(addon) = &addon {
        addons.put(revision, name, Some(Arc::new(addon.clone())));
    }
    Ok(addon.filter(|_| is_written))
}

#[cfg(test)]
mod tests;
