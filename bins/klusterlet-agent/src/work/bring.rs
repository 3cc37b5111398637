//! Applies the manifests of a work, and prunes objects that it no longer names.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use apiclient::error::{Error, Result};
use serde_json::Value;

use super::{
    applied_manifest_work::{AppliedManifestResourceMeta, AppliedManifestWork},
    apply::{ApplyError, ApplyOptions, apply},
    apply_order::rank,
    conditions::{self, Availability, COMPLETE},
    feedback::MAX_VALUES_LENGTH,
    io::{Side, WorkIo},
    manifest::{Manifest, condition_rules, scrape, strategy},
    merge::Intent,
    objects::{
        ManifestCondition, ManifestWork, ManifestWorkExecutor, ResourceIdentifier, digest,
        generation,
    },
    ownership::goes_with_work,
    prune::prune,
    record::{WorkAgent, merged, write_record},
    report::{ApplyAttempt, Progress, known_condition, manifest_condition, report},
    watches::Followed,
};

/// Digests of a work's manifests as last applied, by object.
pub(crate) type Digests = BTreeMap<ResourceIdentifier, u64>;

/// What a pass over a work keeps for the next one.
#[derive(Default)]
pub(crate) struct WorkMemory {
    pub(crate) digests: Digests,
    /// Digest of the status on the hub.
    pub(crate) status: u64,
    /// Passes in a row that undid what others had changed: these may undo it again.
    pub(crate) drifts: u32,
}

/// Applies all manifests, prunes objects that none of them names, and reports.
pub(crate) fn bring(
    io: &mut dyn WorkIo,
    agent: &WorkAgent,
    work: &ManifestWork,
    record: AppliedManifestWork,
    memory: &mut WorkMemory,
) -> Result<Progress> {
    let texts = work.spec.workload.manifests.iter().enumerate();
    let mut manifests: Vec<Manifest> =
        texts.map(|(ordinal, text)| Manifest::read(io, ordinal, text)).collect();
    let recorded = &record.status.applied_resources;
    let wanted = manifests.iter().filter_map(intended).collect::<Vec<_>>();
    let intents = merged(recorded, &wanted);
    let record = write_record(io, &record, intents)?;
    manifests.sort_by_key(|manifest| rank(&manifest.meta.kind));
    let (mut budget, mut drifted) = (MAX_VALUES_LENGTH, false);
    let mut results: Vec<(Manifest, Outcome)> = manifests
        .into_iter()
        .map(|manifest| {
            let attempt = apply_manifest(io, work, &record, &manifest, &mut memory.digests);
            drifted |= attempt.drifted;
            let outcome = Outcome::of(io, (agent, work), &manifest, &attempt, &mut budget);
            (manifest, outcome)
        })
        .collect();
    memory.drifts = if drifted { memory.drifts.saturating_add(1) } else { 0 };
    results.sort_by_key(|(manifest, _)| manifest.meta.ordinal);
    let left = prune_unwanted(io, work, &record, &results);
    let is_pending = !left.is_empty() || results.iter().any(|(_, outcome)| outcome.is_pending);
    let entries = record.status.applied_resources.iter();
    let uids: BTreeMap<_, _> = entries.map(|entry| (entry.identifier(), &entry.uid)).collect();
    let with_uid = results.iter().filter_map(|(manifest, outcome)| {
        let mut entry = intended(manifest)?;
        let known = || uids.get(&entry.identifier()).copied().cloned();
        entry.uid = outcome.uid.clone().or_else(known)?;
        Some(entry)
    });
    write_record(io, &record, merged(&left, &with_uid.collect::<Vec<_>>()))?;
    let wanted: BTreeSet<_> = wanted.iter().map(|entry| entry.identifier()).collect();
    memory.digests.retain(|object, _| wanted.contains(object));
    let conditions = results.into_iter().map(|(_, outcome)| outcome.condition).collect();
    memory.status = report(io, work, conditions)?;
    Ok(if is_pending { Progress::Pending } else { Progress::Done })
}

/// Outcome of an attempt, without its object, which may be large.
struct Outcome {
    uid: Option<String>,
    /// Whether a retry is needed.
    is_pending: bool,
    condition: ManifestCondition,
}

impl Outcome {
    fn of(
        io: &dyn WorkIo,
        (agent, work): (&WorkAgent, &ManifestWork),
        manifest: &Manifest,
        attempt: &ApplyAttempt,
        budget: &mut usize,
    ) -> Self {
        Self {
            uid: attempt.object.as_ref().ok().and_then(uid_of),
            is_pending: matches!(attempt.applied, Some(Err(_)))
                || matches!(attempt.object, Err(Availability::Unknown(..))),
            condition: manifest_condition(io, work, manifest, attempt, (agent.raw_limit, budget)),
        }
    }
}

/// Reports the state of a complete work's objects, and applies none.
pub(crate) fn observe(
    io: &mut dyn WorkIo,
    agent: &WorkAgent,
    work: &ManifestWork,
    memory: &mut WorkMemory,
) -> Result<Progress> {
    let texts = work.spec.workload.manifests.iter().enumerate();
    let mut budget = MAX_VALUES_LENGTH;
    let outcomes = texts.map(|(ordinal, text)| {
        let manifest = Manifest::read(io, ordinal, text);
        let object = look(io, &side(work), &manifest);
        let attempt = ApplyAttempt { applied: None, object, drifted: false };
        Outcome::of(io, (agent, work), &manifest, &attempt, &mut budget)
    });
    let outcomes: Vec<Outcome> = outcomes.collect();
    let is_pending = outcomes.iter().any(|outcome| outcome.is_pending);
    let conditions = outcomes.into_iter().map(|outcome| outcome.condition).collect();
    memory.status = report(io, work, conditions)?;
    Ok(if is_pending { Progress::Pending } else { Progress::Done })
}

fn apply_manifest(
    io: &mut dyn WorkIo,
    work: &ManifestWork,
    record: &AppliedManifestWork,
    manifest: &Manifest,
    digests: &mut Digests,
) -> ApplyAttempt {
    let (known, object, side) =
        (known_condition(work, manifest), manifest.identifier(), side(work));
    let configs = &work.spec.manifest_configs;
    let is_complete = conditions::is_complete(known)
        && condition_rules(configs, &object).iter().any(|rule| rule.condition == COMPLETE);
    if is_complete && manifest.kind.is_ok() {
        let object = look(io, &side, manifest);
        let applied = Some(side.map(drop).map_err(ApplyError::Failed));
        return ApplyAttempt { applied, object, drifted: false };
    }
    let strategy = strategy(configs, &object);
    let digest = digest((manifest.digest, &strategy));
    let is_same = digests.get(&object).map_or_else(
        || conditions::was_applied(known, generation(&work.metadata)),
        |known| *known == digest,
    );
    let applied = side.map_err(ApplyError::Failed).and_then(|side| {
        let kind = manifest.kind.as_ref().map_err(|error| ApplyError::Failed(error.clone()))?;
        let options = ApplyOptions {
            side,
            owner: record,
            owned: goes_with_work(work.spec.delete_option.as_ref(), &object),
            strategy,
            intent: if is_same { Intent::Unchanged } else { Intent::Edited },
        };
        let text = work.spec.workload.manifests.get(manifest.meta.ordinal);
        let text = text.map(|text| &**text).unwrap_or_default();
        apply(io, (manifest, text), kind, &options)
    });
    match applied {
        Ok((live, written)) => {
            let drifted = written && is_same;
            if drifted {
                io.drift_mended(&object);
            }
            digests.insert(object, digest);
            let object = if live.is_null() { Err(Availability::No) } else { Ok(live) };
            ApplyAttempt { applied: Some(Ok(())), object, drifted }
        }
        Err(error) => {
            // The write may have succeeded: then a revert to the previous manifest is an edit, too.
            if !is_same {
                digests.remove(&object);
            }
            // As the agent itself: upstream's condition Available does not depend on the executor, either.
            let object = look(io, &Ok(Side::Managed), manifest);
            ApplyAttempt { applied: Some(Err(error)), object, drifted: false }
        }
    }
}

/// Returns the side on which a work's objects are read and written, or why its executor is invalid.
fn side(work: &ManifestWork) -> std::result::Result<Side<'_>, String> {
    let account = work.spec.executor.as_ref().map(ManifestWorkExecutor::account).transpose()?;
    Ok(account.map_or(Side::Managed, Side::ManagedAs))
}

/// Reads an object without applying it; the error says why there is none.
fn look(
    io: &mut dyn WorkIo,
    side: &std::result::Result<Side<'_>, String>,
    manifest: &Manifest,
) -> std::result::Result<Value, Availability> {
    let Ok(kind) = &manifest.kind else {
        let message = "Resource meta is incomplete".to_owned();
        return Err(Availability::Unknown("IncompleteResourceMeta", message));
    };
    let target = kind.resource.object_in(&manifest.meta.namespace, &manifest.meta.name);
    let unknown = |why: &dyn Display| {
        let message = format!("Failed to fetch resource: {why}");
        Availability::Unknown("FetchingResourceFailed", message)
    };
    let side = side.as_ref().map_err(|why| unknown(why))?;
    io.get(*side, &target).map_err(|error| match error {
        Error::NotFound(_) => Availability::No,
        error => unknown(&error),
    })
}

fn uid_of(live: &Value) -> Option<String> {
    live["metadata"]["uid"].as_str().map(str::to_owned)
}

/// Returns the entry of a manifest in the record; `None` if its kind is unknown.
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

/// Prunes objects that no manifest names; returns the entries that are left. If a manifest's kind is unknown, objects
/// of its group and name stay: any may be its own.
fn prune_unwanted(
    io: &mut dyn WorkIo,
    work: &ManifestWork,
    record: &AppliedManifestWork,
    results: &[(Manifest, Outcome)],
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

/// Returns the objects of a work whose kinds are served.
pub(crate) fn objects(io: &mut dyn WorkIo, work: &ManifestWork) -> Vec<Followed> {
    let manifests = work.spec.workload.manifests.iter();
    let read = manifests.map(|text| Manifest::read(io, 0, text));
    read.filter_map(|manifest| {
        let object = manifest.identifier();
        let scrape = scrape(&work.spec.manifest_configs, &object);
        Some(Followed { object, resource: manifest.kind.ok()?.resource, scrape })
    })
    .collect()
}
