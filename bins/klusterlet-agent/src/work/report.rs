//! What a pass tells the hub: the status of the work in one patch, and its finalizer.

use apiclient::{error::Result, resource::Target};
use serde_json::json;

use super::{
    apply::guarded_by,
    bring::ManifestOutcome,
    conditions::{self, APPLIED},
    io::{Side, WorkEvent, WorkIo},
    manifest::{Manifest, has_feedback_rules},
    merge::difference,
    objects::{
        MANIFEST_WORKS, ManifestCondition, ManifestWork, ManifestWorkStatus, WORK_FINALIZER,
        finalizers, generation,
    },
    reconcile::Progress,
};

/// Writes the status of the work, if it changes.
pub(crate) fn report(
    io: &mut dyn WorkIo,
    work: &ManifestWork,
    results: &[(Manifest, ManifestOutcome)],
) -> Result<()> {
    let now = io.now();
    let at = (generation(&work.metadata), &*now);
    let mut status = work.status.clone();
    let of = |(manifest, applied): &(Manifest, ManifestOutcome)| {
        let known = known_condition(work, manifest).cloned().unwrap_or_default();
        let mut condition = ManifestCondition { resource_meta: manifest.meta.clone(), ..known };
        let rules = has_feedback_rules(&work.spec.manifest_configs, &manifest.identifier());
        conditions::set_manifest(
            &mut condition,
            applied.error.as_ref(),
            &applied.available,
            rules,
            at,
        );
        condition
    };
    status.resource_status.manifests = results.iter().map(of).collect();
    conditions::set_work(&mut status.conditions, &status.resource_status.manifests, at);
    let (before, after) = (applied(&work.status), applied(&status));
    write_status(io, work, &status)?;
    let error = results.iter().find_map(|(_, applied)| applied.error.as_ref());
    match after {
        after if after == before => {}
        Some("True") => io.tell(work, &WorkEvent::Applied),
        _ => {
            let message = error.map(|error| error.condition().1).unwrap_or_default();
            io.tell(work, &WorkEvent::ApplyFailed(&message));
        }
    }
    Ok(())
}

/// The status of condition Applied.
fn applied(status: &ManifestWorkStatus) -> Option<&str> {
    let applied = status.conditions.iter().find(|condition| condition.kind == APPLIED);
    applied.map(|condition| &*condition.status)
}

/// The known entry of a manifest: with the same place, or the only one of that object.
pub(crate) fn known_condition<'a>(
    work: &'a ManifestWork,
    manifest: &Manifest,
) -> Option<&'a ManifestCondition> {
    let known = &work.status.resource_status.manifests;
    let exact = known.iter().find(|known| known.resource_meta == manifest.meta);
    exact.or_else(|| {
        let ordinal = manifest.meta.ordinal;
        let mut same = known.iter().filter(|known| {
            let mut meta = known.resource_meta.clone();
            meta.ordinal = ordinal;
            meta == manifest.meta
        });
        same.next().filter(|_| same.next().is_none())
    })
}

pub(crate) fn write_status(
    io: &mut dyn WorkIo,
    work: &ManifestWork,
    status: &ManifestWorkStatus,
) -> Result<()> {
    let value = |status: &ManifestWorkStatus| serde_json::to_value(status).unwrap_or_default();
    let Some(patch) = difference(&value(&work.status), &value(status)) else { return Ok(()) };
    let patch = guarded_by(&work.metadata, json!({"status": patch}));
    io.patch(Side::Hub, &work_target(work).status(), &patch).map(drop)
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
