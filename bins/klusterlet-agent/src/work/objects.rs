//! ManifestWork (`work.open-cluster-management.io/v1`): the fields that the agent uses.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use apiclient::{
    api::{ObjectMeta, null_as_default},
    resource::Resource,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

pub(crate) static MANIFEST_WORKS: Resource =
    Resource::v1("work.open-cluster-management.io", "manifestworks", "ManifestWork");

pub(crate) const WORK_FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// The field manager of every work agent.
pub(crate) const FIELD_MANAGER: &str = "work-agent";
/// Memory of a parsed tree, as a multiple of its text's length.
const TREE_FACTOR: usize = 2;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ManifestWork {
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) spec: ManifestWorkSpec,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) status: ManifestWorkStatus,
    /// Approximate memory of a kept work, in bytes.
    #[serde(skip)]
    pub(crate) length: usize,
    /// Digest of a kept work's status.
    #[serde(skip)]
    pub(crate) status_digest: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ManifestWorkSpec {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) workload: ManifestsTemplate,
    pub(crate) delete_option: Option<DeleteOption>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) manifest_configs: Vec<ManifestConfigOption>,
    pub(crate) executor: Option<ManifestWorkExecutor>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ManifestWorkExecutor {
    pub(crate) subject: ExecutorSubject,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ExecutorSubject {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) service_account: Option<ServiceAccount>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceAccount {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The manifests as text: parsed trees would take several times the memory.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ManifestsTemplate {
    #[serde(deserialize_with = "texts")]
    pub(crate) manifests: Vec<Box<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOption {
    pub(crate) propagation_policy: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) selectively_orphans: SelectivelyOrphan,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SelectivelyOrphan {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) orphaning_rules: Vec<ResourceIdentifier>,
}

/// Identity of an object in any version. In a ManifestConfigOption, namespace and name may contain `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceIdentifier {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Group and plural.
pub(crate) type Kind = (String, String);

impl ResourceIdentifier {
    pub(crate) fn kind(&self) -> Kind {
        (self.group.clone(), self.resource.clone())
    }
}

/// Formats a kind like kubectl, such as `deployments.apps`.
pub(crate) fn group_resource(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ManifestConfigOption {
    pub(crate) resource_identifier: ResourceIdentifier,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) feedback_rules: Vec<FeedbackRule>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) condition_rules: Vec<ConditionRule>,
    /// Poll or Watch.
    pub(crate) feedback_scrape_type: String,
    pub(crate) update_strategy: Option<UpdateStrategy>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FeedbackRule {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) json_paths: Vec<FeedbackPath>,
}

/// JsonPath of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FeedbackPath {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ConditionRule {
    pub(crate) condition: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct UpdateStrategy {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) server_side_apply: ServerSideApplyConfig,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServerSideApplyConfig {
    pub(crate) force: bool,
    field_manager: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) ignore_fields: Vec<IgnoreField>,
}

impl ServerSideApplyConfig {
    pub(crate) fn field_manager(&self) -> &str {
        if self.field_manager.is_empty() { FIELD_MANAGER } else { &self.field_manager }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct IgnoreField {
    pub(crate) condition: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) json_paths: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) json_pointers: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) jq_path_expressions: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ManifestWorkStatus {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) conditions: Vec<WorkCondition>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) resource_status: ManifestResourceStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ManifestResourceStatus {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) manifests: Vec<ManifestCondition>,
}

#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ManifestCondition {
    pub(crate) resource_meta: ManifestResourceMeta,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) conditions: Vec<WorkCondition>,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(crate) status_feedback: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ManifestResourceMeta {
    pub(crate) ordinal: usize,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
}

impl ManifestResourceMeta {
    /// Returns whether both name the same object, at any index of the manifests.
    pub(crate) fn has_object_of(&self, other: &Self) -> bool {
        *self == Self { ordinal: self.ordinal, ..other.clone() }
    }
}

/// metav1.Condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WorkCondition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) last_transition_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
}

impl ManifestWork {
    /// Drops metadata that the agent does not read; sets length and digest.
    pub(crate) fn kept(mut self) -> Self {
        // managedFields and annotations would take more memory than the rest.
        self.metadata.other.clear();
        let ManifestWorkSpec { workload, delete_option, manifest_configs, .. } = &self.spec;
        let manifests = workload.manifests.iter().map(|manifest| manifest.len());
        let trees = (&self.metadata, &self.status, delete_option, manifest_configs);
        let trees = serde_json::to_string(&trees).map_or(0, |text| TREE_FACTOR * text.len());
        self.length = trees + manifests.sum::<usize>();
        self.status_digest = digest(&self.status);
        self
    }

    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// Returns a hash, comparable only within this process.
pub(crate) fn digest(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::new().hash_one(value)
}

pub(crate) fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

pub(crate) fn generation(metadata: &ObjectMeta) -> i64 {
    metadata.generation.unwrap_or_default()
}

pub(crate) fn finalizers(metadata: &ObjectMeta) -> Vec<&str> {
    metadata.finalizers.iter().map(String::as_str).collect()
}

fn texts<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<Box<str>>, D::Error> {
    let manifests: Option<Vec<Value>> = Option::deserialize(value)?;
    Ok(manifests.into_iter().flatten().map(|manifest| manifest.to_string().into()).collect())
}

#[cfg(test)]
mod tests {
    use apiclient::api::parse;
    use serde_json::json;

    use super::*;

    #[test]
    fn work_keeps_its_manifests_as_text() {
        let work: ManifestWork = parse(json!({
            "metadata": {
                "name": "w", "uid": "u", "generation": 3, "finalizers": [WORK_FINALIZER],
                "managedFields": [{"manager": "m"}],
            },
            "spec": {"workload": {"manifests": [{"kind": "ConfigMap"}]}, "deleteOption": null},
            "status": null,
        }))
        .unwrap();
        assert_eq!(*work.spec.workload.manifests, [r#"{"kind":"ConfigMap"}"#.into()]);
        assert_eq!((uid(&work.metadata), generation(&work.metadata)), ("u", 3));
        assert_eq!(finalizers(&work.metadata), [WORK_FINALIZER]);
        let kept = work.clone().kept();
        assert!(kept.metadata.other.is_empty());
        let mut other = work;
        other.spec.workload.manifests.push("x".repeat(1000).into());
        assert_eq!(other.kept().length, kept.length + 1000);
    }
}
