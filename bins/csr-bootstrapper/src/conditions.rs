//! Status of objects on the hub: conditions, and a patch for one version of an object.

use std::time::SystemTime;

use apiclient::{
    certificate::X509Certificate,
    client::{Client, Patch},
    error::{Error, Result},
    resource::Target,
    time::seconds_time,
};
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Condition {
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

pub(crate) type TypedCondition = (&'static str, Condition);

impl Condition {
    pub(crate) fn new(status: &str, reason: &str, message: String) -> Self {
        Self { status: status.to_owned(), reason: reason.to_owned(), message }
    }

    /// ClusterCertificateRotated for a certificate with this `chain`, in upstream's words and Go's time format.
    pub(crate) fn rotated(chain: &[X509Certificate]) -> Self {
        let go = |at| seconds_time(at).replace('T', " ").replace('Z', " +0000 UTC");
        let mut message = "client certificate rotated".to_owned();
        if let Some(leaf) = chain.first() {
            let (begin, end) = (go(leaf.not_before), go(leaf.not_after));
            message += &format!(" starting from {begin} to {end}");
        }
        Self::new("True", "ClientCertificateUpdated", message)
    }

    pub(crate) fn not_rotated(message: String) -> Self {
        Self::new("False", "ClientCertificateUpdateFailed", message)
    }

    pub(crate) fn of(object: &Value, kind: &str) -> Option<Self> {
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let condition = conditions.find(|condition| condition["type"] == kind)?;
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Some(Self { status: text("status"), reason: text("reason"), message: text("message") })
    }
}

/// Returns the conditions of `status` with the `wanted` ones; `None` if nothing changes.
pub(crate) fn changed<'a>(
    status: &Value,
    wanted: impl IntoIterator<Item = (&'a str, &'a Condition)>,
    now: SystemTime,
) -> Option<Value> {
    let before = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions = before.clone();
    for (kind, wanted) in wanted {
        let found = conditions.iter().position(|condition| condition["type"] == kind);
        let index = found.unwrap_or_else(|| {
            conditions.push(json!({"type": kind}));
            conditions.len() - 1
        });
        let condition = &mut conditions[index];
        // As in upstream (apimachinery `pkg/api/meta/conditions.go`, SetStatusCondition).
        if condition["status"] != *wanted.status {
            condition["status"] = json!(wanted.status);
            condition["lastTransitionTime"] = json!(seconds_time(now));
        }
        condition["reason"] = json!(wanted.reason);
        condition["message"] = json!(wanted.message);
    }
    (conditions != before).then_some(Value::Array(conditions))
}

pub(crate) fn has(object: &Value, kind: &str, status: &str) -> bool {
    Condition::of(object, kind).is_some_and(|condition| condition.status == status)
}

/// Returns whether the hub accepted the cluster: it sets the condition after `hubAcceptsClient` and the permissions.
pub(crate) fn accepted(cluster: &Value) -> bool {
    has(cluster, "HubAcceptedManagedCluster", "True")
}

/// Returns whether the hub finds that this agent's clock differs from its own.
pub(crate) fn clocks_differ(cluster: &Value) -> bool {
    has(cluster, "ManagedClusterConditionClockSynced", "False")
}

/// Patches the `status` of `object`, if its version has not changed: a patch replaces whole lists.
pub(crate) fn patch_status(
    client: &Client,
    target: &Target<'_>,
    object: &Value,
    status: &Map<String, Value>,
) -> Result<Value> {
    let metadata =
        guard(object).ok_or_else(|| Error::BadPeer(format!("{target} has no resourceVersion")))?;
    let patch = json!({"metadata": metadata, "status": status});
    client.patch(&target.status(), Patch::Merge, &patch)
}

/// Returns the metadata of a patch for this version of `object` only; `None` if it has no version.
fn guard(object: &Value) -> Option<Value> {
    let metadata = &object["metadata"];
    let version = metadata["resourceVersion"].as_str()?;
    Some(json!({"uid": metadata["uid"], "resourceVersion": version}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_is_for_one_version_of_an_object() {
        let named = json!({"metadata": {"name": "x", "uid": "u-1", "resourceVersion": "7"}});
        assert_eq!(guard(&named), Some(json!({"uid": "u-1", "resourceVersion": "7"})));
        for odd in [json!(null), json!([]), json!({"metadata": {"uid": "u-1"}})] {
            assert_eq!(guard(&odd), None, "{odd}");
        }
    }
}
