//! Namespaces of the spoke that the hub's cluster sets manage: created, labelled, and told of in the ManagedCluster's
//! status. None is ever deleted: one that is no longer managed only gets another label.

mod controller;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use apiclient::resource::valid_label;
use serde_json::Value;

pub(crate) use self::controller::run;
use crate::{conditions::set, digest::sha256};

/// More namespaces than this are left alone: each costs memory, and a request.
const MAX_NAMESPACES: usize = 500;
/// Before the hub's hash (ocm `pkg/registration/spoke/managedcluster/managed_namespace_reconcile.go`).
const LABEL_PREFIX: &str = "clusterset.open-cluster-management.io/";
/// The name of a label is not longer.
const MAX_LABEL_NAME: usize = 63;

/// Whether each namespace that the hub manages is as it should be, or the reason why not.
pub(crate) type Applied = BTreeMap<String, Result<(), String>>;

/// The label of the hub at `server`: `true` on the namespaces that it manages, `false` on those that it managed.
fn label(server: &str) -> String {
    format!("{LABEL_PREFIX}{}", &sha256(server.as_bytes())[..MAX_LABEL_NAME])
}

/// The namespaces that the hub manages; none once the ManagedCluster is being deleted.
fn wanted(cluster: &Value) -> BTreeSet<String> {
    if !cluster["metadata"]["deletionTimestamp"].is_null() {
        return BTreeSet::new();
    }
    let all = cluster["status"]["managedNamespaces"].as_array().into_iter().flatten();
    let names = all.filter_map(|namespace| namespace["name"].as_str());
    names.filter(|name| valid_label(name)).take(MAX_NAMESPACES).map(str::to_owned).collect()
}

/// The `managedNamespaces` of the cluster's status with what was done for them; `None` if the hub knows.
pub(crate) fn told(cluster: &Value, applied: &Applied, now: SystemTime) -> Option<Value> {
    let before = &cluster["status"]["managedNamespaces"];
    let mut all = before.as_array()?.clone();
    for namespace in &mut all {
        let Some(result) = namespace["name"].as_str().and_then(|name| applied.get(name)) else {
            continue;
        };
        let mut conditions = namespace["conditions"].as_array().cloned().unwrap_or_default();
        let condition = match result {
            Ok(()) => ["True", "NamespaceApplied", "Namespace successfully applied and managed"],
            Err(error) => ["False", "NamespaceApplyFailed", error],
        };
        let [status, reason, message] = condition;
        set(&mut conditions, ["NamespaceAvailable", status, reason, message], now);
        namespace["conditions"] = Value::Array(conditions);
    }
    let all = Value::Array(all);
    (all != *before).then_some(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn managed_namespace_label_is_that_of_the_hub() {
        // sha256sum of the text.
        let expected = "clusterset.open-cluster-management.io/\
            100680ad546ce6a577f42f52df33b4cfdca756859e664b8d7de329b150d09ce";
        assert_eq!(label("https://example.com"), expected);
        assert_eq!(expected.split_once('/').unwrap().1.len(), MAX_LABEL_NAME);
    }

    fn cluster(namespaces: &Value) -> Value {
        json!({"metadata": {"name": "cluster1"}, "status": {"managedNamespaces": namespaces}})
    }

    #[test]
    fn managed_namespace_names_are_those_of_the_status() {
        let named = json!([{"name": "a", "clusterSet": "s"}, {"name": "b"}, {"name": "a"}]);
        assert_eq!(wanted(&cluster(&named)), BTreeSet::from(["a".into(), "b".into()]));
        let mut deleted = cluster(&named);
        deleted["metadata"]["deletionTimestamp"] = json!("2026-11-23T10:00:00Z");
        for none in [cluster(&json!(null)), cluster(&json!([])), deleted, json!(null)] {
            assert_eq!(wanted(&none), BTreeSet::new(), "{none}");
        }
        for odd in [json!([{"name": "../../x"}]), json!([7]), json!([{"name": ""}]), json!("x")] {
            assert_eq!(wanted(&cluster(&odd)), BTreeSet::new(), "{odd}");
        }
        let many: Vec<_> = (0..1000).map(|number| json!({"name": format!("n{number}")})).collect();
        assert_eq!(wanted(&cluster(&json!(many))).len(), MAX_NAMESPACES);
    }

    #[test]
    fn managed_namespace_conditions_are_told_when_they_change() {
        let now = SystemTime::UNIX_EPOCH;
        let hub =
            cluster(&json!([{"name": "a", "clusterSet": "s"}, {"name": "b", "clusterSet": "t"}]));
        let condition = |status: &str, reason: &str, message: &str| {
            json!([{"type": "NamespaceAvailable", "status": status, "reason": reason,
                "message": message, "lastTransitionTime": "1970-01-01T00:00:00Z"}])
        };
        let good =
            condition("True", "NamespaceApplied", "Namespace successfully applied and managed");
        let bad = condition("False", "NamespaceApplyFailed", "no right");
        let mut applied = Applied::from([("a".into(), Ok(())), ("other".into(), Ok(()))]);
        let expected = json!([
            {"name": "a", "clusterSet": "s", "conditions": good}, {"name": "b", "clusterSet": "t"},
        ]);
        assert_eq!(told(&hub, &applied, now), Some(expected.clone()));
        assert_eq!(told(&cluster(&expected), &applied, now), None);
        applied.insert("b".into(), Err("no right".into()));
        let expected = json!([
            {"name": "a", "clusterSet": "s", "conditions": good},
            {"name": "b", "clusterSet": "t", "conditions": bad},
        ]);
        assert_eq!(told(&hub, &applied, now), Some(expected));
        for none in [json!(null), cluster(&json!(null)), cluster(&json!([]))] {
            assert_eq!(told(&none, &applied, now), None, "{none}");
        }
    }
}
