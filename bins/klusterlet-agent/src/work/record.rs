//! Reads and writes AppliedManifestWorks, the records of the objects that works have on this cluster.

use std::collections::BTreeMap;

use apiclient::{
    api::parse,
    client::Preconditions,
    error::{Error, Result, optional},
    resource::Target,
};
use serde_json::{Value, json};

use super::{
    applied_manifest_work::{
        APPLIED_FINALIZER, APPLIED_MANIFEST_WORKS, AppliedManifestResourceMeta,
        AppliedManifestWork, AppliedManifestWorkSpec,
    },
    apply::guarded_by,
    feedback::RawLimit,
    io::{Side, WorkIo},
    merge::difference,
    objects::{ManifestWork, ResourceIdentifier, finalizers, uid},
};

/// This agent, as its records name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WorkAgent {
    /// The namespace of its works on the hub.
    pub(crate) cluster: String,
    pub(crate) hub_hash: String,
    pub(crate) agent_id: String,
    pub(crate) raw_limit: RawLimit,
}

pub(crate) fn read_record(io: &mut dyn WorkIo, name: &str) -> Result<Option<AppliedManifestWork>> {
    let record = io.get(Side::Managed, &APPLIED_MANIFEST_WORKS.cluster_object(name));
    optional(record)?.map(parse_record).transpose()
}

pub(crate) fn create_record(
    io: &mut dyn WorkIo,
    agent: &WorkAgent,
    work: &ManifestWork,
    name: &str,
) -> Result<AppliedManifestWork> {
    let labels = &work.metadata.labels;
    let metadata = json!({"name": name, "labels": labels, "finalizers": [APPLIED_FINALIZER]});
    let object = json!({
        "apiVersion": APPLIED_MANIFEST_WORKS.api_version(),
        "kind": APPLIED_MANIFEST_WORKS.kind,
        "metadata": metadata,
        "spec": record_spec(agent, work),
    });
    let target = APPLIED_MANIFEST_WORKS.cluster_object(name);
    parse_record(io.create(Side::Managed, &target, &object)?)
}

fn record_spec(agent: &WorkAgent, work: &ManifestWork) -> AppliedManifestWorkSpec {
    AppliedManifestWorkSpec {
        hub_hash: agent.hub_hash.clone(),
        agent_id: agent.agent_id.clone(),
        manifest_work_name: work.name().to_owned(),
    }
}

/// Updates labels, spec and finalizer of the record.
pub(crate) fn update_record(
    io: &mut dyn WorkIo,
    agent: &WorkAgent,
    work: &ManifestWork,
    record: AppliedManifestWork,
) -> Result<AppliedManifestWork> {
    let of = |labels: &BTreeMap<String, String>,
              spec: &AppliedManifestWorkSpec,
              finalizers: &[&str]| json!({"metadata": {"labels": labels, "finalizers": finalizers}, "spec": spec});
    let known = finalizers(&record.metadata);
    let mut wanted = known.clone();
    if !wanted.contains(&APPLIED_FINALIZER) {
        wanted.push(APPLIED_FINALIZER);
    }
    let before = of(&record.metadata.labels, &record.spec, &known);
    let after = of(&work.metadata.labels, &record_spec(agent, work), &wanted);
    match difference(&before, &after) {
        None => Ok(record),
        Some(patch) => {
            let patch = guarded_by(&record.metadata, patch);
            parse_record(io.patch(Side::Managed, &target(&record), &patch)?)
        }
    }
}

/// Writes the entries of the record, if they change.
pub(crate) fn write_record(
    io: &mut dyn WorkIo,
    record: &AppliedManifestWork,
    entries: Vec<AppliedManifestResourceMeta>,
) -> Result<AppliedManifestWork> {
    if record.status.applied_resources == entries {
        return Ok(record.clone());
    }
    let patch = guarded_by(&record.metadata, json!({"status": {"appliedResources": entries}}));
    parse_record(io.patch(Side::Managed, &target(record).status(), &patch)?)
}

/// Adds entries to known ones. Without a uid, an added entry changes only the version of the known one.
pub(crate) fn merged(
    known: &[AppliedManifestResourceMeta],
    added: &[AppliedManifestResourceMeta],
) -> Vec<AppliedManifestResourceMeta> {
    let mut entries: BTreeMap<ResourceIdentifier, AppliedManifestResourceMeta> =
        known.iter().map(|entry| (entry.identifier(), entry.clone())).collect();
    for entry in added {
        match entries.get_mut(&entry.identifier()) {
            Some(known) if entry.uid.is_empty() => known.version.clone_from(&entry.version),
            Some(known) => known.clone_from(entry),
            None => drop(entries.insert(entry.identifier(), entry.clone())),
        }
    }
    let mut entries: Vec<_> = entries.into_values().collect();
    entries.sort();
    entries
}

/// Starts or cancels the eviction of a record.
pub(crate) fn set_eviction_start(
    io: &mut dyn WorkIo,
    record: &AppliedManifestWork,
    start: Option<&str>,
) -> Result<()> {
    let patch = json!({"status": {"evictionStartTime": start}});
    let patch = guarded_by(&record.metadata, patch);
    io.patch(Side::Managed, &target(record).status(), &patch).map(drop)
}

/// Deletes the record, with uid and resourceVersion as preconditions.
pub(crate) fn delete_record(io: &mut dyn WorkIo, record: &AppliedManifestWork) -> Result<()> {
    let preconditions = Preconditions {
        uid: Some(uid(&record.metadata).to_owned()),
        resource_version: record.metadata.resource_version.clone(),
    };
    io.delete(&target(record), &preconditions)
}

fn parse_record(object: Value) -> Result<AppliedManifestWork> {
    parse(object)
        .ok_or_else(|| Error::BadPeer("the answer is not a valid AppliedManifestWork".to_owned()))
}

pub(crate) fn target(record: &AppliedManifestWork) -> Target<'_> {
    APPLIED_MANIFEST_WORKS.cluster_object(record.metadata.name.as_deref().unwrap_or_default())
}
