//! Writes of a pass to the hub: the work's status in one patch, and its finalizer.

use apiclient::{api::parse, error::Result, resource::Target};
use serde_json::{Value, json};

use super::{
    apply::{ApplyError, guarded_by},
    condition_rules,
    conditions::{self, APPLIED, Availability},
    feedback::{self, RawLimit},
    io::{Side, WorkEvent, WorkIo},
    manifest::{Manifest, condition_rules, feedback_rules},
    merge::difference,
    objects::{
        MANIFEST_WORKS, ManifestCondition, ManifestWork, ManifestWorkStatus, WORK_FINALIZER,
        digest, finalizers, generation,
    },
};

/// The outcome of a pass without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Done,
    /// Another pass is needed: a manifest failed, or an object is being deleted.
    Pending,
}

/// What a pass did with a manifest.
pub(crate) struct ApplyAttempt {
    /// `None` if there was no attempt.
    pub(crate) applied: Option<std::result::Result<(), ApplyError>>,
    /// The object, or why there is none.
    pub(crate) object: std::result::Result<Value, Availability>,
    /// Others had changed the object.
    pub(crate) drifted: bool,
}

/// Returns the entry of a manifest in the status of its work.
pub(crate) fn manifest_condition(
    io: &dyn WorkIo,
    work: &ManifestWork,
    manifest: &Manifest,
    attempt: &ApplyAttempt,
    (raw, left): (RawLimit, &mut usize),
) -> ManifestCondition {
    let now = io.now();
    let at = (generation(&work.metadata), &*now);
    let known = known_condition(work, manifest).cloned().unwrap_or_default();
    let mut entry = ManifestCondition { resource_meta: manifest.meta.clone(), ..known };
    let available = attempt.object.as_ref().map_or_else(Clone::clone, |_| Availability::Yes);
    conditions::set_manifest(&mut entry.conditions, attempt.applied.as_ref(), &available, at);
    let (configs, identifier) = (&work.spec.manifest_configs, manifest.identifier());
    let condition_rules = condition_rules(configs, &identifier);
    condition_rules::retain(&mut entry.conditions, condition_rules);
    // After a failure, the object was read as the agent, which the executor might not be allowed to: keep old values.
    let may_read = work.spec.executor.is_none() || !matches!(attempt.applied, Some(Err(_)));
    let Some(object) = attempt.object.as_ref().ok().filter(|_| may_read) else { return entry };
    let rules = feedback_rules(configs, &identifier);
    let feedback =
        (!rules.is_empty()).then(|| feedback::read(rules, &manifest.meta, object, raw, left));
    let values = json!(feedback.as_ref().map(|feedback| &*feedback.values).unwrap_or_default());
    let before = entry.status_feedback.get("values").cloned().unwrap_or_else(|| json!([]));
    if values != before {
        entry.status_feedback =
            if values == json!([]) { json!({}) } else { json!({"values": values}) };
    }
    conditions::set_feedback(&mut entry.conditions, feedback.as_ref(), values != before, &now);
    let conditions = &mut entry.conditions;
    condition_rules::set_manifest(conditions, condition_rules, (&manifest.meta, object), at);
    entry
}

/// Writes the work's status, if it changed, and an Event, if Applied changed; returns the status's digest on the hub.
pub(crate) fn report(
    io: &mut dyn WorkIo,
    work: &ManifestWork,
    manifests: Vec<ManifestCondition>,
) -> Result<u64> {
    let now = io.now();
    let at = (generation(&work.metadata), &*now);
    let mut status = work.status.clone();
    conditions::set_work(&mut status.conditions, &manifests, at);
    condition_rules::set_work(&mut status.conditions, &manifests, at);
    status.resource_status.manifests = manifests;
    let (before, after) = (applied(&work.status), applied(&status));
    let written = write_status(io, work, &status)?;
    match after {
        after if after == before => {}
        Some("True") => io.tell(work, &WorkEvent::Applied),
        _ => {
            let manifests = status.resource_status.manifests.iter();
            let mut conditions = manifests.flat_map(|manifest| &manifest.conditions);
            let failed = conditions.find(|c| c.kind == APPLIED && c.status == "False");
            let message = failed.map(|failed| &*failed.message).unwrap_or_default();
            io.tell(work, &WorkEvent::ApplyFailed(message));
        }
    }
    Ok(written)
}

/// Returns the status of condition Applied.
fn applied(status: &ManifestWorkStatus) -> Option<&str> {
    let applied = conditions::find_status_condition(&status.conditions, APPLIED);
    applied.map(|condition| &*condition.status)
}

/// Returns a manifest's entry in the current status: with the same index, or the only entry of its object.
pub(crate) fn known_condition<'a>(
    work: &'a ManifestWork,
    manifest: &Manifest,
) -> Option<&'a ManifestCondition> {
    let known = &work.status.resource_status.manifests;
    let exact = known.iter().find(|known| known.resource_meta == manifest.meta);
    exact.or_else(|| {
        let mut same = known.iter().filter(|it| it.resource_meta.has_object_of(&manifest.meta));
        same.next().filter(|_| same.next().is_none())
    })
}

/// Writes a status, if it differs; returns the digest of the hub's answer.
pub(crate) fn write_status(
    io: &mut dyn WorkIo,
    work: &ManifestWork,
    status: &ManifestWorkStatus,
) -> Result<u64> {
    let value = |status: &ManifestWorkStatus| serde_json::to_value(status).unwrap_or_default();
    let Some(patch) = difference(&value(&work.status), &value(status)) else {
        return Ok(work.status_digest);
    };
    let patch = guarded_by(&work.metadata, json!({"status": patch}));
    let mut answer = io.patch(Side::Hub, &work_target(work).status(), &patch)?;
    let written: Option<ManifestWorkStatus> = parse(answer["status"].take());
    Ok(digest(written.unwrap_or_default()))
}

pub(crate) fn add_finalizer(io: &mut dyn WorkIo, work: &ManifestWork) -> Result<Progress> {
    let mut finalizers = finalizers(&work.metadata);
    finalizers.push(WORK_FINALIZER);
    write_finalizers(io, work, &finalizers)?;
    Ok(Progress::Pending)
}

pub(crate) fn remove_finalizer(io: &mut dyn WorkIo, work: &ManifestWork) -> Result<Progress> {
    let mut rest = finalizers(&work.metadata);
    rest.retain(|finalizer| *finalizer != WORK_FINALIZER);
    write_finalizers(io, work, &rest)?;
    Ok(Progress::Done)
}

fn write_finalizers(io: &mut dyn WorkIo, work: &ManifestWork, finalizers: &[&str]) -> Result<()> {
    let patch = guarded_by(&work.metadata, json!({"metadata": {"finalizers": finalizers}}));
    io.patch(Side::Hub, &work_target(work), &patch).map(drop)
}

pub(crate) fn work_target(work: &ManifestWork) -> Target<'_> {
    MANIFEST_WORKS.object(work.metadata.namespace.as_deref().unwrap_or_default(), work.name())
}
