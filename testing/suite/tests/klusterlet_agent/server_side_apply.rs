//! Strategy ServerSideApply: fields that are left to the cluster, and conflicts.

use dev_apiserver::Rule;
use serde_json::{Value, json};
use suite::{
    eventually,
    faults::answer,
    stays,
    work::{NAMESPACE, Stage},
};

/// Puts the work `w` with the ConfigMap `a`.
fn put(stage: &Stage, data: Value, server_side_apply: Value) {
    let metadata = json!({"name": "a", "namespace": NAMESPACE});
    let manifest =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    let object = json!({"resource": "configmaps", "namespace": NAMESPACE, "name": "a"});
    let strategy = json!({"type": "ServerSideApply", "serverSideApply": server_side_apply});
    let config = json!({"resourceIdentifier": object, "updateStrategy": strategy});
    let spec = json!({"workload": {"manifests": [manifest]}, "manifestConfigs": [config]});
    stage.put_work("w", spec);
}

fn data(stage: &Stage) -> Value {
    let object = stage.managed.get("v1", "configmaps", NAMESPACE, "a").unwrap_or_default();
    object["data"].clone()
}

/// Another manager sets a field, or with `None` removes it.
fn set(stage: &Stage, key: &str, value: Option<&str>) {
    stage.managed.alter("v1", "configmaps", NAMESPACE, "a", |object| {
        let fields = object["data"].as_object_mut().expect("data");
        match value {
            Some(value) => fields.insert(key.to_owned(), value.into()),
            None => fields.remove(key),
        };
        true
    });
}

/// The Go agent mends nothing then.
#[test]
fn ignored_field_stays_and_other_drift_is_mended() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    let ignore = json!([
        {"condition": "OnSpokeChange", "jsonPaths": [".data.changed"]},
        {"condition": "OnSpokePresent", "jsonPointers": ["/data/present"]},
    ]);
    let strategy = json!({"force": true, "ignoreFields": ignore});
    let manifest = |n: &str| json!({"k": n, "changed": n, "present": n, "idle": n});
    put(&stage, manifest("1"), strategy.clone());
    stage.wait_for_applied("w", "True");
    set(&stage, "changed", Some("theirs"));
    set(&stage, "idle", None);
    let mended = json!({"k": "1", "changed": "theirs", "present": "1", "idle": "1"});
    eventually("mended", || data(&stage) == mended);
    set(&stage, "k", Some("theirs"));
    eventually("mended", || data(&stage) == mended);
    agent.terminate();
    stage.managed.clear_requests();
    let mut agent = stage.start(&[]);
    agent.wait_for_code("/readyz", 200);
    stays("no write", || stage.managed.writes().is_empty());
    put(&stage, manifest("2"), strategy);
    let edited = json!({"k": "2", "changed": "2", "present": "1", "idle": "2"});
    eventually("the edit", || data(&stage) == edited);
    agent.terminate();
}

#[test]
fn jq_of_ignored_fields_is_refused_visibly() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    let ignore = json!([{"condition": "OnSpokePresent", "jqPathExpressions": [".data"]}]);
    put(&stage, json!({"k": "1"}), json!({"ignoreFields": ignore}));
    stage.wait_for_applied("w", "False");
    assert_eq!(stage.manifest_applied(0)["reason"], "AppliedManifestSSAIgnoreFieldError");
    assert!(data(&stage).is_null());
    agent.terminate();
}

/// A stale resourceVersion has the same code, 409.
#[test]
fn only_a_field_of_another_manager_is_an_apply_conflict() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    let stale = json!({
        "kind": "Status", "code": 409, "reason": "Conflict",
        "message": "Operation cannot be fulfilled on configmaps \"a\": the object has been modified",
    });
    let rule = Rule::new(answer(409, stale)).verb("patch").resource("configmaps");
    let rule = stage.managed.faults().add(rule);
    put(&stage, json!({"k": "1"}), json!({}));
    stage.wait_for_applied("w", "False");
    assert_eq!(stage.manifest_applied(0)["reason"], "AppliedManifestFailed");
    stage.managed.faults().remove(rule);
    stage.wait_for_applied("w", "True");
    set(&stage, "k", Some("theirs"));
    eventually("a conflict", || stage.manifest_applied(0)["reason"] == "ApplyConflict");
    let message = stage.manifest_applied(0)["message"].clone();
    let words = "Failed to apply manifest: Apply failed with 1 conflict: ";
    assert!(message.as_str().is_some_and(|message| message.starts_with(words)), "{message}");
    agent.terminate();
}
