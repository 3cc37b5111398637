//! Deletes recorded objects that a work no longer names, if the work is provably their only owner.

use super::{
    applied_manifest_work::{AppliedManifestResourceMeta, AppliedManifestWork},
    apply::update,
    io::{Side, WorkIo},
    objects::{DeleteOption, group_resource, uid},
    ownership::{goes_with_work, is_owned_by, is_shared, with_owner},
};
use apiclient::{
    client::Preconditions,
    error::{Error, Result},
};

/// Removes the object of each entry, also after a failure of another; returns the entries that are left.
pub(crate) fn prune<'a>(
    io: &mut dyn WorkIo,
    record: &AppliedManifestWork,
    entries: impl Iterator<Item = &'a AppliedManifestResourceMeta>,
    option: Option<&DeleteOption>,
) -> Vec<AppliedManifestResourceMeta> {
    let is_left = |entry: &&AppliedManifestResourceMeta| {
        let orphan = !goes_with_work(option, &entry.identifier());
        match remove(io, record, entry, orphan) {
            Ok(removal) => removal == Removal::Pending,
            Err(error) => {
                log::warn!(
                    kind = group_resource(&entry.group, &entry.resource),
                    namespace = entry.namespace, name = entry.name, error:% = error;
                    "not deleted yet"
                );
                true
            }
        }
    };
    entries.filter(is_left).cloned().collect()
}

/// What is left to do for a recorded object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removal {
    /// Nothing: the record forgets it.
    Done,
    /// It is being deleted.
    Pending,
}

/// Deletes a recorded object, or with `orphan` releases it.
fn remove(
    io: &mut dyn WorkIo,
    owner: &AppliedManifestWork,
    entry: &AppliedManifestResourceMeta,
    orphan: bool,
) -> Result<Removal> {
    let Some(kind) = io.find_resource(&entry.group, &entry.resource)? else {
        return Ok(Removal::Done);
    };
    let target = kind.resource.object_in(&entry.namespace, &entry.name);
    let live = match io.get(Side::Managed, &target) {
        Err(Error::NotFound(_)) => return Ok(Removal::Done),
        live => live?,
    };
    let (ours, metadata) = (uid(&owner.metadata), &live["metadata"]);
    if !is_owned_by(&live, ours) {
        return Ok(Removal::Done);
    }
    if orphan || is_shared(&live, ours) {
        let mut released = live.clone();
        released["metadata"]["ownerReferences"] = with_owner(&live, owner, false).into();
        update(io, Side::Managed, &target, &live, &released)?;
        return Ok(Removal::Done);
    }
    if !metadata["deletionTimestamp"].is_null() {
        return Ok(Removal::Pending);
    }
    let text = |field: &str| metadata[field].as_str().map(str::to_owned);
    // With the resourceVersion: another work may have become an owner since the read.
    let preconditions =
        Preconditions { uid: text("uid"), resource_version: text("resourceVersion") };
    match io.delete(&target, &preconditions) {
        Ok(()) => Ok(Removal::Pending),
        Err(Error::NotFound(_)) => Ok(Removal::Done),
        Err(error) => Err(error),
    }
}
