//! Applies one manifest to the managed cluster.

use apiclient::{
    api::ObjectMeta,
    discovery::ApiResource,
    error::{Error, Result, optional},
    json,
    resource::Target,
};
use serde_json::{Value, json};

use super::{
    applied_manifest_work::AppliedManifestWork,
    executor::{check_delete, denial},
    io::{Side, WorkIo},
    manifest::{Manifest, Strategy},
    merge::{Intent, difference, merge, without_nulls},
    objects::{ServerSideApplyConfig, uid},
    ownership::{is_record, with_owner},
    prepared::prepared,
    server_side_apply::Required,
};

/// Kinds of the core group for which strategy Update changes only labels and annotations, as in the Go agent
/// (library-go `core.go`): the server and controllers add to the rest.
const ONCE_CREATED: [&str; 3] = ["Namespace", "Pod", "ServiceAccount"];
/// Maximum number of attempts while others write the same object.
const MAX_ATTEMPTS: usize = 4;
/// How the server begins the message of a conflict between field managers (apimachinery
/// `pkg/util/managedfields/internal/conflict.go`). A stale version is another 409.
const FIELD_CONFLICT: &str = "Apply failed with ";
/// Memory limits for a manifest and for its object, in bytes: memory holds three copies of the object, and the pod has
/// 32 MiB.
const MAX_MANIFEST: usize = 3 << 20;
pub(crate) const MAX_OBJECT: usize = 6 << 20;

/// Why a manifest is not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ApplyError {
    /// Another field manager owns a field; the text is the server's.
    Conflict(String),
    IgnoreFields(String),
    Failed(String),
}

impl ApplyError {
    /// Returns reason and message of condition Applied.
    pub(crate) fn condition(&self) -> (&'static str, String) {
        match self {
            Self::Conflict(why) => ("ApplyConflict", format!("Failed to apply manifest: {why}")),
            Self::IgnoreFields(why) => {
                let message = format!("Failed to process ignoreFields: {why}");
                ("AppliedManifestSSAIgnoreFieldError", message)
            }
            Self::Failed(why) => {
                ("AppliedManifestFailed", format!("Failed to apply manifest: {why}"))
            }
        }
    }
}

/// How a manifest is applied.
pub(crate) struct ApplyOptions<'a> {
    pub(crate) side: Side<'a>,
    pub(crate) owner: &'a AppliedManifestWork,
    pub(crate) owned: bool,
    pub(crate) strategy: Strategy,
    pub(crate) intent: Intent,
}

/// Applies a manifest; returns the object and whether it was written. Strategy ReadOnly returns null for an absent
/// object.
pub(crate) fn apply(
    io: &mut dyn WorkIo,
    (manifest, text): (&Manifest, &str),
    kind: &ApiResource,
    options: &ApplyOptions<'_>,
) -> std::result::Result<(Value, bool), ApplyError> {
    let target = kind.resource.object_in(&manifest.meta.namespace, &manifest.meta.name);
    let object = json::parse(text.as_bytes(), MAX_MANIFEST).ok_or_else(|| {
        let limit = MAX_MANIFEST >> 20;
        ApplyError::Failed(format!("the manifest takes more than {limit} MiB of memory"))
    })?;
    let way = way(object, options)?;
    let failed = |error: Error| match (error, options.side) {
        (Error::Forbidden(why), Side::ManagedAs(_)) => ApplyError::Failed(denial(&target, &why)),
        (error, _) => ApplyError::Failed(error.to_string()),
    };
    if let Side::ManagedAs(account) = options.side
        && options.owned
        && !matches!(way, Way::Read)
    {
        check_delete(io, account, &target).map_err(failed)?;
    }
    let mut attempts = 0;
    loop {
        attempts += 1;
        match apply_once(io, &target, &way, options) {
            Err(Error::Conflict(_) | Error::AlreadyExists(_)) if attempts < MAX_ATTEMPTS => {}
            Err(Error::Conflict(error)) if error.contains(FIELD_CONFLICT) => {
                let words = error.split_once(": 409: ").map_or(&*error, |(_, words)| words);
                return Err(ApplyError::Conflict(words.to_owned()));
            }
            result => return result.map_err(failed),
        }
    }
}

/// What a strategy does with a manifest.
enum Way<'a> {
    Merge(Value),
    Create(Value),
    Apply(Required, &'a ServerSideApplyConfig),
    Read,
}

fn way<'a>(
    manifest: Value,
    options: &'a ApplyOptions<'_>,
) -> std::result::Result<Way<'a>, ApplyError> {
    Ok(match &options.strategy {
        Strategy::Update => Way::Merge(prepared(manifest)),
        Strategy::CreateOnly => Way::Create(prepared(manifest)),
        Strategy::ServerSideApply(config) => {
            let required = Required::new(manifest, config).map_err(ApplyError::IgnoreFields)?;
            Way::Apply(required, config)
        }
        Strategy::ReadOnly => Way::Read,
        Strategy::Unsupported(reason) => return Err(ApplyError::Failed(reason.clone())),
    })
}

fn apply_once(
    io: &mut dyn WorkIo,
    target: &Target<'_>,
    way: &Way<'_>,
    options: &ApplyOptions<'_>,
) -> Result<(Value, bool)> {
    let before = optional(io.get(options.side, target))?;
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let known = before.as_ref().map(version);
    let mut live = match (way, before) {
        (Way::Merge(manifest) | Way::Create(manifest), None) => {
            return Ok((create(io, target, manifest, options)?, true));
        }
        (Way::Apply(required, config), before) => {
            let wanted = match &before {
                Some(live) => required.against(live, options.intent),
                None => Some(required.original()),
            };
            match wanted {
                Some(wanted) => {
                    let wanted = with_owners(wanted, before.as_ref(), options);
                    io.apply(options.side, target, &wanted, config)?
                }
                None => before.unwrap_or_default(),
            }
        }
        (_, before) => before.unwrap_or_default(),
    };
    let mut wanted = match way {
        Way::Merge(manifest) => merged(target, manifest, &live, options.intent),
        Way::Create(_) | Way::Apply(..) => live.clone(),
        Way::Read => return Ok((live, false)),
    };
    let references = with_owner(&live, options.owner, options.owned);
    if !(references.is_empty() && live["metadata"]["ownerReferences"].is_null()) {
        wanted["metadata"]["ownerReferences"] = references.into();
    }
    if let Some(updated) = update(io, options.side, target, &live, &wanted)? {
        live = updated;
    }
    // The server may drop a whole change, such as empty lists.
    let is_written = known.is_none_or(|known| known != version(&live));
    Ok((live, is_written))
}

/// Returns the live object with the changes of strategy Update.
fn merged(target: &Target<'_>, manifest: &Value, live: &Value, intent: Intent) -> Value {
    let mut merged = merge(manifest, live, intent);
    if target.resource.group.is_empty() && ONCE_CREATED.contains(&&*target.resource.kind) {
        let metadata = merged["metadata"].take();
        merged = live.clone();
        merged["metadata"] = metadata;
    }
    merged
}

/// Creates an object. RBAC sees the name only in a patch: an executor restricted to `resourceNames` creates by patch.
fn create(
    io: &mut dyn WorkIo,
    target: &Target<'_>,
    manifest: &Value,
    options: &ApplyOptions<'_>,
) -> Result<Value> {
    let object = new_object(manifest, options);
    match io.create(options.side, target, &object) {
        Err(Error::Forbidden(_)) if options.side != Side::Managed => {
            io.apply(options.side, target, &object, &ServerSideApplyConfig::default())
        }
        created => created,
    }
}

/// Changes this version of `live` to `wanted`; returns the written object, if they differ. The klusterlet operator lets
/// its agent update a CustomResourceDefinition, but not patch it.
pub(crate) fn update(
    io: &mut dyn WorkIo,
    side: Side<'_>,
    target: &Target<'_>,
    live: &Value,
    wanted: &Value,
) -> Result<Option<Value>> {
    let Some(patch) = difference(live, wanted) else { return Ok(None) };
    let patched = io.patch(side, target, &guarded(patch, live));
    match patched {
        Err(Error::Forbidden(_)) if side == Side::Managed => io.replace(side, target, wanted),
        patched => patched,
    }
    .map(Some)
}

/// Adds uid and resourceVersion of `live` to a patch, as preconditions.
fn guarded(mut patch: Value, live: &Value) -> Value {
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
    with_owners(object, None, options)
}

/// Sets the owner in the first write: an object without an owner might be left behind. A server-side apply also names
/// other works that own `live`: they may share the field manager, and an apply removes owners that it omits.
/// An apply to an absent object has no precondition: between read and apply, only another agent could add an owner.
fn with_owners(mut object: Value, live: Option<&Value>, options: &ApplyOptions<'_>) -> Value {
    let live = live.unwrap_or(&Value::Null);
    let mut references = with_owner(live, options.owner, options.owned);
    references.retain(is_record);
    if !references.is_empty() {
        object["metadata"]["ownerReferences"] = references.into();
    }
    object
}
