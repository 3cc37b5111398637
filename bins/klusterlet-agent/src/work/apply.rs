//! One manifest is applied to the managed cluster.

use apiclient::{
    api::ObjectMeta,
    error::{Error, Result},
};
use serde_json::{Value, json};

use super::{
    io::{ServedKind, Side, WorkIo},
    manifest::{Manifest, Strategy},
    merge::{Intent, difference, merge, without_nulls},
    objects::{AppliedManifestWork, uid},
    ownership::with_owner,
};

/// Attempts while others write the same object.
const MAX_ATTEMPTS: usize = 4;

/// How a manifest is applied.
pub(crate) struct ApplyOptions<'a> {
    pub(crate) owner: &'a AppliedManifestWork,
    pub(crate) owned: bool,
    pub(crate) strategy: Strategy,
    pub(crate) intent: Intent,
}

/// Applies a manifest; returns the object, and whether it was written.
pub(crate) fn apply(
    io: &mut dyn WorkIo,
    manifest: &Manifest,
    kind: &ServedKind,
    options: &ApplyOptions<'_>,
) -> Result<(Value, bool)> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match apply_once(io, manifest, kind, options) {
            Err(Error::Conflict(_) | Error::AlreadyExists(_)) if attempts < MAX_ATTEMPTS => {}
            result => return result,
        }
    }
}

fn apply_once(
    io: &mut dyn WorkIo,
    manifest: &Manifest,
    kind: &ServedKind,
    options: &ApplyOptions<'_>,
) -> Result<(Value, bool)> {
    if let Strategy::Unsupported(reason) = &options.strategy {
        return Err(Error::Invalid(reason.clone()));
    }
    let target = kind.resource.object_in(&manifest.meta.namespace, &manifest.meta.name);
    let live = match io.get(Side::Managed, &target) {
        Err(Error::NotFound(_)) if options.strategy != Strategy::ReadOnly => {
            let created =
                io.create(Side::Managed, &target, &new_object(&manifest.object, options))?;
            return Ok((created, true));
        }
        live => live?,
    };
    let mut wanted = match options.strategy {
        Strategy::Update => merge(&manifest.object, &live, options.intent),
        Strategy::CreateOnly => live.clone(),
        Strategy::ReadOnly | Strategy::Unsupported(_) => return Ok((live, false)),
    };
    let references = with_owner(&live, options.owner, options.owned);
    if !(references.is_empty() && live["metadata"]["ownerReferences"].is_null()) {
        wanted["metadata"]["ownerReferences"] = references.into();
    }
    match difference(&live, &wanted) {
        None => Ok((live, false)),
        Some(patch) => {
            let patched = io.patch(Side::Managed, &target, &guarded(patch, &live))?;
            // The server may drop all of it, such as empty lists.
            let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
            let is_written = version(&patched) != version(&live);
            Ok((patched, is_written))
        }
    }
}

/// The patch for this very version of `live`.
pub(crate) fn guarded(mut patch: Value, live: &Value) -> Value {
    for field in ["uid", "resourceVersion"] {
        patch["metadata"][field] = live["metadata"][field].clone();
    }
    patch
}

/// The same for a typed object.
pub(crate) fn guarded_by(metadata: &ObjectMeta, mut patch: Value) -> Value {
    patch["metadata"]["uid"] = uid(metadata).into();
    patch["metadata"]["resourceVersion"] = json!(metadata.resource_version);
    patch
}

fn new_object(manifest: &Value, options: &ApplyOptions<'_>) -> Value {
    let mut object = without_nulls(manifest);
    for map in ["labels", "annotations"] {
        if let Some(map) = object["metadata"].get_mut(map).and_then(Value::as_object_mut) {
            map.retain(|key, _| !key.ends_with('-'));
        }
    }
    let references = with_owner(&json!({}), options.owner, options.owned);
    if !references.is_empty() {
        object["metadata"]["ownerReferences"] = references.into();
    }
    object
}
