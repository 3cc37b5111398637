//! The manifests of a work are applied, and what it no longer names is taken away.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use apiclient::{
    error::{Error, Result},
    resource::{Resource, Target},
};
use serde_json::Value;

use super::{
    apply::{ApplyError, ApplyOptions, apply},
    apply_order::rank,
    conditions::{self, Availability},
    io::{Side, WorkIo},
    manifest::{Manifest, Strategy, strategy},
    merge::Intent,
    objects::{
        AppliedManifestResourceMeta, AppliedManifestWork, ManifestWork, ResourceIdentifier,
        generation,
    },
    ownership::goes_with_work,
    prune::prune,
    reconcile::{Digests, Progress},
    record::{merged, write_record},
    report::{known_condition, report},
};

/// Applies all manifests, takes away what is no longer among them, and reports.
pub(crate) fn bring(
    io: &mut dyn WorkIo,
    work: &ManifestWork,
    record: AppliedManifestWork,
    digests: &mut Digests,
) -> Result<Progress> {
    let texts = work.spec.workload.manifests.iter().enumerate();
    let mut manifests: Vec<Manifest> =
        texts.map(|(ordinal, text)| Manifest::read(io, ordinal, text)).collect();
    let recorded = &record.status.applied_resources;
    let wanted = manifests.iter().filter_map(intended).collect::<Vec<_>>();
    let intents = merged(recorded, &wanted);
    let record = write_record(io, &record, intents)?;
    manifests.sort_by_key(|manifest| rank(&manifest.meta.kind));
    let mut results: Vec<(Manifest, ManifestOutcome)> = manifests
        .into_iter()
        .map(|manifest| {
            let applied = apply_manifest(io, work, &record, &manifest, digests);
            (manifest, applied)
        })
        .collect();
    results.sort_by_key(|(manifest, _)| manifest.meta.ordinal);
    let left = prune_unwanted(io, work, &record, &results);
    let is_pending = !left.is_empty() || results.iter().any(|(_, applied)| applied.error.is_some());
    let with_uid = results.iter().filter_map(|(manifest, applied)| {
        let mut entry = intended(manifest)?;
        let entries = record.status.applied_resources.iter();
        let known = entries.clone().find(|known| known.identifier() == entry.identifier());
        entry.uid = applied.uid.clone().or_else(|| known.map(|known| known.uid.clone()))?;
        Some(entry)
    });
    let mut entries = merged(&left, &with_uid.collect::<Vec<_>>());
    entries.sort();
    write_record(io, &record, entries)?;
    digests.retain(|object, _| wanted.iter().any(|entry| entry.identifier() == *object));
    report(io, work, &results)?;
    Ok(if is_pending { Progress::Pending } else { Progress::Done })
}

/// The outcome for a manifest.
pub(crate) struct ManifestOutcome {
    uid: Option<String>,
    pub(crate) error: Option<ApplyError>,
    pub(crate) available: Availability,
}

fn apply_manifest(
    io: &mut dyn WorkIo,
    work: &ManifestWork,
    record: &AppliedManifestWork,
    manifest: &Manifest,
    digests: &mut Digests,
) -> ManifestOutcome {
    let kind = match &manifest.kind {
        Ok(kind) => kind,
        Err(error) => {
            let message = "Resource meta is incomplete".to_owned();
            let available = Availability::Unknown("IncompleteResourceMeta", message);
            let error = Some(ApplyError::Failed(error.clone()));
            return ManifestOutcome { uid: None, error, available };
        }
    };
    let object = manifest.identifier();
    let known = known_condition(work, manifest);
    let target = kind.resource.object_in(&manifest.meta.namespace, &manifest.meta.name);
    if conditions::is_complete(known) {
        let (uid, available) = look(io, &target);
        return ManifestOutcome { uid, error: None, available };
    }
    let strategy = match work.spec.executor {
        Some(_) => Strategy::Unsupported("an executor is not supported".to_owned()),
        None => strategy(&work.spec.manifest_configs, &object),
    };
    let mut hasher = DefaultHasher::new();
    (manifest.digest, &strategy).hash(&mut hasher);
    let digest = hasher.finish();
    let is_same = digests.get(&object).map_or_else(
        || conditions::was_applied(known, generation(&work.metadata)),
        |known| *known == digest,
    );
    let options = ApplyOptions {
        owner: record,
        owned: goes_with_work(work.spec.delete_option.as_ref(), &object),
        strategy,
        intent: if is_same { Intent::Unchanged } else { Intent::Edited },
    };
    match apply(io, manifest, kind, &options) {
        Ok((live, written)) => {
            if written && is_same {
                io.drift_mended(&object);
            }
            digests.insert(object, digest);
            ManifestOutcome { uid: uid_of(&live), error: None, available: Availability::Yes }
        }
        Err(error) => {
            let (uid, available) = look(io, &target);
            ManifestOutcome { uid, error: Some(error), available }
        }
    }
}

/// The uid of an object that is not applied now, and whether it is there.
fn look(io: &mut dyn WorkIo, target: &Target<'_>) -> (Option<String>, Availability) {
    match io.get(Side::Managed, target) {
        Ok(live) => (uid_of(&live), Availability::Yes),
        Err(Error::NotFound(_)) => (None, Availability::No),
        Err(error) => {
            let message = format!("Failed to fetch resource: {error}");
            (None, Availability::Unknown("FetchingResourceFailed", message))
        }
    }
}

fn uid_of(live: &Value) -> Option<String> {
    live["metadata"]["uid"].as_str().map(str::to_owned)
}

/// The entry of a manifest in the record; `None` if its kind is not known.
fn intended(manifest: &Manifest) -> Option<AppliedManifestResourceMeta> {
    let kind = manifest.kind.as_ref().ok()?;
    let ResourceIdentifier { group, resource, namespace, name } = manifest.identifier();
    let version = kind.resource.version.to_string();
    Some(AppliedManifestResourceMeta {
        group,
        version,
        resource,
        namespace,
        name,
        uid: String::new(),
    })
}

/// Takes away what no manifest names. Of a manifest whose kind is not known, every object of that group and name may
/// be it.
fn prune_unwanted(
    io: &mut dyn WorkIo,
    work: &ManifestWork,
    record: &AppliedManifestWork,
    results: &[(Manifest, ManifestOutcome)],
) -> Vec<AppliedManifestResourceMeta> {
    let wanted: BTreeSet<ResourceIdentifier> =
        results.iter().map(|(manifest, _)| manifest.identifier()).collect();
    let may_be = |entry: &AppliedManifestResourceMeta| {
        results.iter().any(|(Manifest { meta, kind, .. }, _)| {
            kind.is_err()
                && (meta.group.is_empty() || meta.group == entry.group)
                && (meta.name.is_empty() || meta.name == entry.name)
        })
    };
    let entries = &record.status.applied_resources;
    let unwanted = entries.iter().filter(|entry| !wanted.contains(&entry.identifier()));
    let (doubtful, unwanted): (Vec<_>, Vec<_>) = unwanted.partition(|entry| may_be(entry));
    let mut left = prune(io, record, unwanted.into_iter(), work.spec.delete_option.as_ref());
    left.extend(doubtful.into_iter().cloned());
    left
}

/// The objects of a work, as far as their kinds are served.
pub(crate) fn objects(
    io: &mut dyn WorkIo,
    work: &ManifestWork,
) -> Vec<(ResourceIdentifier, Resource)> {
    let manifests = work.spec.workload.manifests.iter();
    let read = manifests.map(|text| Manifest::read(io, 0, text));
    read.filter_map(|manifest| Some((manifest.identifier(), manifest.kind.ok()?.resource)))
        .collect()
}
