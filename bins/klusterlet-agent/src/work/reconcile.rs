//! Reconciles a work: applies it to this cluster, or removes it. A pass may end after any of its requests.
//!
//! The record (AppliedManifestWork) names each object before the object is written, so that a later pass finds it.

use apiclient::error::Result;
use serde_json::json;

use super::{
    applied_manifest_work::{APPLIED_FINALIZER, AppliedManifestWork},
    apply::guarded_by,
    bring::{WorkMemory, bring, observe},
    conditions,
    io::{Side, WorkIo},
    objects::{DeleteOption, ManifestWork, WORK_FINALIZER, finalizers, generation},
    ownership::goes_with_work,
    prune::prune,
    record::{
        WorkAgent, create_record, delete_record, read_record, target, update_record, write_record,
    },
    report::{Progress, add_finalizer, remove_finalizer, write_status},
};

/// Makes one pass over a work of the hub.
pub(crate) fn reconcile(
    io: &mut dyn WorkIo,
    agent: &WorkAgent,
    work: &ManifestWork,
    memory: &mut WorkMemory,
) -> Result<Progress> {
    if !finalizers(&work.metadata).contains(&WORK_FINALIZER) {
        return if work.is_deleting() { Ok(Progress::Done) } else { add_finalizer(io, work) };
    }
    let name = format!("{}-{}", agent.hub_hash, work.name());
    let record = read_record(io, &name)?;
    if work.is_deleting() {
        return end(io, work, record, memory);
    }
    match record {
        Some(record) if record.is_deleting() => {
            finalize(io, &record, work.spec.delete_option.as_ref())
        }
        _ if work.is_complete() => observe(io, agent, work, memory),
        Some(record) => {
            let record = update_record(io, agent, work, record)?;
            bring(io, agent, work, record, memory)
        }
        None => {
            let record = create_record(io, agent, work, &name)?;
            bring(io, agent, work, record, memory)
        }
    }
}

/// Makes one pass over a record that is being deleted: deletes its objects, then removes its finalizer.
pub(crate) fn finalize(
    io: &mut dyn WorkIo,
    record: &AppliedManifestWork,
    option: Option<&DeleteOption>,
) -> Result<Progress> {
    let finalizers = finalizers(&record.metadata);
    if !finalizers.contains(&APPLIED_FINALIZER) {
        return Ok(Progress::Pending);
    }
    let entries = &record.status.applied_resources;
    let left = prune(io, record, entries.iter(), option);
    if !left.is_empty() {
        write_record(io, record, left)?;
        return Ok(Progress::Pending);
    }
    let rest: Vec<&str> = finalizers.into_iter().filter(|f| *f != APPLIED_FINALIZER).collect();
    let patch = json!({"metadata": {"finalizers": rest}});
    io.patch(Side::Managed, &target(record), &guarded_by(&record.metadata, patch))?;
    Ok(Progress::Pending)
}

/// Handles a work that is being deleted: deletes its record with the objects, then removes the work's finalizer.
fn end(
    io: &mut dyn WorkIo,
    work: &ManifestWork,
    record: Option<AppliedManifestWork>,
    memory: &mut WorkMemory,
) -> Result<Progress> {
    let Some(record) = record else { return remove_finalizer(io, work) };
    let option = work.spec.delete_option.as_ref();
    if record.is_deleting() {
        return finalize(io, &record, option);
    }
    let (now, mut status) = (io.now(), work.status.clone());
    conditions::set_deleting(&mut status.conditions, (generation(&work.metadata), &now));
    memory.status = write_status(io, work, &status)?;
    // Orphans are released before the record is deleted: without the work, the record would delete all its objects.
    let entries = record.status.applied_resources.iter();
    let orphans = entries.filter(|entry| !goes_with_work(option, &entry.identifier()));
    if prune(io, &record, orphans, option).is_empty() {
        delete_record(io, &record)?;
    }
    Ok(Progress::Pending)
}
