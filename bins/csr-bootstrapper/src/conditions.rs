//! Conditions in the status of objects on the hub: pure.

use std::time::SystemTime;

use apiclient::{certificate::X509Certificate, time::seconds_time};
use serde_json::{Value, json};

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

    /// ClusterCertificateRotated about a certificate with this `chain`, in upstream's words and Go's form of times.
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

/// The conditions of `status` with those that are `wanted`; `None` if they are there.
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
