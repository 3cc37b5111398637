//! Conditions in the status of objects on the hub: pure.

use std::time::SystemTime;

use serde_json::{Value, json};
use shared::time::seconds_time;

/// Sets one condition as upstream does (apimachinery `pkg/api/meta/conditions.go`, SetStatusCondition):
/// `lastTransitionTime` changes with the status alone.
pub(crate) fn set(conditions: &mut Vec<Value>, condition: [&str; 4], now: SystemTime) {
    let [kind, status, reason, message] = condition;
    let found = conditions.iter().position(|condition| condition["type"] == kind);
    let index = found.unwrap_or_else(|| {
        conditions.push(json!({"type": kind}));
        conditions.len() - 1
    });
    let condition = &mut conditions[index];
    if condition["status"] != status {
        condition["status"] = json!(status);
        condition["lastTransitionTime"] = json!(seconds_time(now));
    }
    condition["reason"] = json!(reason);
    condition["message"] = json!(message);
}

/// Returns whether the condition of this type has this status.
pub(crate) fn has(cluster: &Value, kind: &str, status: &str) -> bool {
    let conditions = cluster["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == status)
}

/// The metadata that makes a patch of `object` apply to this very version of it; `None` if it has none.
pub(crate) fn guard(object: &Value) -> Option<Value> {
    let metadata = object["metadata"].as_object()?;
    let (uid, version) = (metadata.get("uid"), metadata.get("resourceVersion"));
    Some(json!({"uid": uid, "resourceVersion": version}))
}
