//! Works that are applied with the rights of a service account.

use serde_json::{Value, json};
use suite::{
    eventually,
    work::{NAMESPACE, Stage, config_map},
};

const USER: &str = "system:serviceaccount:n:sa";

/// Puts the work `w` with a ConfigMap for each name.
fn put_work(stage: &Stage, names: &[&str], orphan: bool) {
    let account = json!({"namespace": NAMESPACE, "name": "sa"});
    let executor = json!({"subject": {"type": "ServiceAccount", "serviceAccount": account}});
    let manifests: Vec<Value> = names.iter().map(|name| config_map(name, "1")).collect();
    let option = orphan.then(|| json!({"propagationPolicy": "Orphan"}));
    let workload = json!({"manifests": manifests});
    let spec = json!({"workload": workload, "executor": executor, "deleteOption": option});
    stage.put_work("w", spec);
}

/// The account may do these on ConfigMaps and Jobs of its namespace, or on those of these names.
fn grant(stage: &Stage, verbs: &[&str], names: &[&str]) {
    let api = "rbac.authorization.k8s.io/v1";
    let metadata = json!({"name": "sa", "namespace": NAMESPACE});
    let (groups, resources) = (["", "batch"], ["configmaps", "jobs"]);
    let rule = json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names});
    stage
        .managed
        .put(json!({"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": [rule]}));
    let subject = json!({"kind": "ServiceAccount", "namespace": NAMESPACE, "name": "sa"});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "sa"});
    stage.managed.put(json!({
        "apiVersion": api, "kind": "RoleBinding", "metadata": metadata,
        "subjects": [subject], "roleRef": role,
    }));
}

fn message(stage: &Stage) -> String {
    let entry = stage.work("w")["status"]["resourceStatus"]["manifests"][0].clone();
    let conditions = entry["conditions"].as_array().cloned().unwrap_or_default();
    let applied = conditions.iter().find(|condition| condition["type"] == "Applied");
    applied.map(|applied| applied["message"].to_string()).unwrap_or_default()
}

#[test]
fn executor_applies_with_its_own_rights_and_the_agent_deletes() {
    let stage = Stage::new();
    stage.managed.enforce_rbac();
    let mut agent = stage.start(&[]);
    put_work(&stage, &["a"], false);
    stage.wait_for_applied("w", "False");
    let denied = "not allowed to apply the resource  configmaps, n a, will try again in 1m0s: ";
    assert!(message(&stage).contains(denied), "{}", message(&stage));
    grant(&stage, &["get", "create", "update", "patch", "delete"], &[]);
    eventually("applied", || stage.data("a").is_some());
    stage.wait_for_applied("w", "True");
    let writes = stage.managed.writes();
    let maps = writes.iter().filter(|request| request.path.contains("/configmaps"));
    assert!(maps.clone().all(|request| request.user == USER) && maps.count() > 0);
    grant(&stage, &[], &[]);
    put_work(&stage, &["a", "b"], false);
    stage.wait_for_applied("w", "False");
    assert_eq!((stage.data("a").is_some(), stage.data("b")), (true, None));
    stage.delete_work("w");
    eventually("gone", || stage.work("w").is_null());
    assert_eq!(stage.data("a"), None);
    agent.terminate();
}

#[test]
fn executor_needs_delete_for_what_goes_with_the_work() {
    let stage = Stage::new();
    stage.managed.enforce_rbac();
    grant(&stage, &["get", "create", "update", "patch"], &[]);
    let mut agent = stage.start(&[]);
    put_work(&stage, &["a"], false);
    stage.wait_for_applied("w", "False");
    assert_eq!(stage.data("a"), None);
    put_work(&stage, &["a"], true);
    stage.wait_for_applied("w", "True");
    assert!(stage.data("a").is_some());
    agent.terminate();
}

/// A POST has no name that a Role could give.
#[test]
fn executor_creates_the_objects_that_its_role_names() {
    let stage = Stage::new();
    stage.managed.enforce_rbac();
    grant(&stage, &["get", "create", "update", "patch", "delete"], &["a"]);
    let mut agent = stage.start(&[]);
    put_work(&stage, &["a", "b"], false);
    stage.wait_for_applied("w", "False");
    assert_eq!((stage.data("a").is_some(), stage.data("b")), (true, None));
    agent.terminate();
}

#[test]
fn executor_sees_no_values_of_what_it_may_not_read() {
    let stage = Stage::new();
    stage.managed.enforce_rbac();
    stage.managed.put(config_map("a", "theirs"));
    let mut agent = stage.start(&[]);
    let account = json!({"namespace": NAMESPACE, "name": "sa"});
    let all = json!({"resource": "configmaps", "namespace": "*", "name": "*"});
    let rules = json!([{"type": "JSONPaths", "jsonPaths": [{"name": "k", "path": ".data.k"}]}]);
    for kind in ["ServiceAccount", "User"] {
        stage.put_work(
            "w",
            json!({
                "workload": {"manifests": [config_map("a", "1")]},
                "executor": {"subject": {"type": kind, "serviceAccount": account}},
                "manifestConfigs": [{
                    "resourceIdentifier": all, "feedbackRules": rules,
                    "updateStrategy": {"type": "ReadOnly"},
                }],
            }),
        );
        stage.wait_for_applied("w", "False");
        assert!(!stage.work("w")["status"].to_string().contains("theirs"), "{kind}");
    }
    agent.terminate();
}

/// A complete manifest is read with the account's rights, too, and is applied anew without its rule.
#[test]
fn executor_of_a_complete_work_has_its_rights_and_edits() {
    let stage = Stage::new();
    stage.managed.enforce_rbac();
    let all = ["get", "create", "patch", "delete"];
    grant(&stage, &all, &[]);
    let mut agent = stage.start(&[]);
    let put = |suspend: bool, condition_rules: Value| {
        let metadata = json!({"name": "a", "namespace": NAMESPACE});
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"suspend": suspend}});
        let jobs = json!({"group": "batch", "resource": "jobs", "namespace": "*", "name": "*"});
        let account = json!({"namespace": NAMESPACE, "name": "sa"});
        stage.put_work(
            "w",
            json!({
                "workload": {"manifests": [job]},
                "executor": {"subject": {"type": "ServiceAccount", "serviceAccount": account}},
                "manifestConfigs": [{
                    "resourceIdentifier": jobs, "conditionRules": condition_rules,
                    "feedbackRules": [{"type": "WellKnownStatus"}], "feedbackScrapeType": "Watch",
                }],
            }),
        );
    };
    let set_succeeded = |succeeded: i64| {
        let complete = json!([{"type": "Complete", "status": "True"}]);
        stage.managed.alter("batch/v1", "jobs", NAMESPACE, "a", |job| {
            job["status"] = json!({"conditions": complete, "succeeded": succeeded});
            true
        });
    };
    let status = || stage.work("w")["status"].to_string();
    put(false, json!([{"type": "WellKnownConditions", "condition": "Complete"}]));
    stage.wait_for_applied("w", "True");
    set_succeeded(1);
    let value = |succeeded: i64| format!(r#""integer":{succeeded}"#);
    eventually("complete", || {
        status().contains(&value(1)) && status().contains("ConditionRulesAggregated")
    });
    grant(&stage, &[], &[]);
    set_succeeded(7);
    eventually("unknown", || status().contains("FetchingResourceFailed"));
    assert!(!status().contains(&value(7)), "{}", status());
    put(true, json!([]));
    eventually("no rule", || !status().contains("ConditionRulesAggregated"));
    grant(&stage, &all, &[]);
    eventually("edited", || {
        let job = stage.managed.get("batch/v1", "jobs", NAMESPACE, "a");
        job.is_some_and(|job| job["spec"]["suspend"] == true)
    });
    agent.terminate();
}
