//! AppliedManifestWork (`work.open-cluster-management.io/v1`): the record of a work's objects on this cluster.

use apiclient::{
    api::{ObjectMeta, null_as_default},
    resource::Resource,
};
use serde::{Deserialize, Serialize};

use super::objects::ResourceIdentifier;

pub(crate) static APPLIED_MANIFEST_WORKS: Resource =
    Resource::v1("work.open-cluster-management.io", "appliedmanifestworks", "AppliedManifestWork");

pub(crate) const APPLIED_FINALIZER: &str =
    "cluster.open-cluster-management.io/applied-manifest-work-cleanup";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AppliedManifestWork {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: AppliedManifestWorkSpec,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) status: AppliedManifestWorkStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AppliedManifestWorkSpec {
    pub(crate) hub_hash: String,
    #[serde(rename = "agentID")]
    pub(crate) agent_id: String,
    pub(crate) manifest_work_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AppliedManifestWorkStatus {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) applied_resources: Vec<AppliedManifestResourceMeta>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) eviction_start_time: Option<String>,
}

/// An applied object. Without a uid, it is an intent: the agent was about to write the object.
///
/// Lists are sorted by the fields in this order (ocm `appliedmanifestwork_reconciler.go:107-120`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AppliedManifestResourceMeta {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
}

impl AppliedManifestResourceMeta {
    fn length(&self) -> usize {
        let texts = [&self.group, &self.version, &self.resource, &self.namespace, &self.name];
        let texts = texts.into_iter().chain([&self.uid]).map(String::len);
        size_of::<Self>() + texts.sum::<usize>()
    }

    pub(crate) fn identifier(&self) -> ResourceIdentifier {
        let Self { group, resource, namespace, name, .. } = self.clone();
        ResourceIdentifier { group, resource, namespace, name }
    }
}

impl AppliedManifestWork {
    /// Drops metadata that the agent does not read.
    pub(crate) fn kept(mut self) -> Self {
        // managedFields and annotations would take more memory than the rest.
        self.metadata.other.clear();
        self
    }

    /// Returns the approximate memory of a kept record, in bytes.
    pub(crate) fn length(&self) -> usize {
        self.status.applied_resources.iter().map(AppliedManifestResourceMeta::length).sum()
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

#[cfg(test)]
mod tests {
    use apiclient::api::parse;
    use serde_json::json;

    use super::*;

    #[test]
    fn applied_resources_are_written_as_upstream_writes_them() {
        let meta = AppliedManifestResourceMeta {
            version: "v1".into(),
            resource: "namespaces".into(),
            name: "a".into(),
            ..Default::default()
        };
        let written = serde_json::to_value(&meta).unwrap();
        assert_eq!(written, json!({"version": "v1", "resource": "namespaces", "name": "a"}));
        assert_eq!(parse(written), Some(meta));
    }
}
