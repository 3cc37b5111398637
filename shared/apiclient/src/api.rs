//! Typed Kubernetes objects with the fields that the programs use. Types that are written back keep all other fields.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Converts `object` to a `T`; `None` if it has another shape. serde's error could quote a secret.
pub fn parse<T: DeserializeOwned>(object: Value) -> Option<T> {
    serde_json::from_value(object).ok()
}

/// metav1.ObjectMeta.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub finalizers: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub labels: BTreeMap<String, String>,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl ObjectMeta {
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            namespace: namespace.map(str::to_owned),
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: LeaseSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_duration_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acquire_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_transitions: Option<i32>,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Node {
    #[serde(deserialize_with = "null_as_default")]
    pub spec: NodeSpec,
    #[serde(deserialize_with = "null_as_default")]
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    pub unschedulable: bool,
}

/// Status of a Node: quantities by name of the resource.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    #[serde(deserialize_with = "null_as_default")]
    pub capacity: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    pub allocatable: BTreeMap<String, String>,
}

/// ClusterClaim of OCM, and ClusterProperty of SIG Multicluster (KEP-2149).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClusterClaim {
    #[serde(deserialize_with = "null_as_default")]
    pub spec: ClusterClaimSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClusterClaimSpec {
    pub value: String,
}

/// Metadata only; also a Namespace to create.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartialObjectMetadata {
    pub metadata: ObjectMeta,
}

/// Go writes an empty list or map as null.
pub fn null_as_default<'de, D, T>(value: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(value).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lease_that_is_written_back_keeps_the_fields_of_others() {
        let lease = json!({
            "metadata": {"name": "x", "labels": {"a": "b"}, "resourceVersion": "7"},
            "spec": {"holderIdentity": "other", "strategy": {"new": [1]}},
        });
        let typed: Lease = parse(lease.clone()).unwrap();
        assert_eq!(typed.spec.holder_identity.as_deref(), Some("other"));
        assert_eq!(serde_json::to_value(typed).unwrap(), lease);
    }

    #[test]
    fn null_is_the_default_and_another_shape_is_no_object() {
        let metadata = json!({"finalizers": null, "labels": null});
        let lease: Lease = parse(json!({"metadata": metadata, "spec": null})).unwrap();
        assert_eq!(lease, Lease::default());
        let odd = [json!(null), json!(7), json!({"spec": 7}), json!({"metadata": {"labels": []}})];
        for odd in odd {
            assert_eq!(parse::<Lease>(odd.clone()), None, "{odd}");
        }
    }
}
