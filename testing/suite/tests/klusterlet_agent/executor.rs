//! Works that are applied with the rights of a service account.

use serde_json::{Value, json};
use suite::{
    eventually,
    work::{NAMESPACE, Stage, config_map, object},
};

const USER: &str = "system:serviceaccount:n:sa";

/// The account as the executor of a work, with this type of subject.
fn executor(kind: &str) -> Value {
    let account = json!({"namespace": NAMESPACE, "name": "sa"});
    json!({"subject": {"type": kind, "serviceAccount": account}})
}

/// Puts the work `w` with a ConfigMap for each name.
fn put_work(stage: &Stage, names: &[&str], orphan: bool) {
    let manifests: Vec<Value> = names.iter().map(|name| config_map(name, "1")).collect();
    let option = orphan.then(|| json!({"propagationPolicy": "Orphan"}));
    let workload = json!({"manifests": manifests});
    let spec = json!({"workload": workload, "executor": executor("ServiceAccount"), "deleteOption": option});
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

#[test]
fn executor_applies_with_its_own_rights_and_the_agent_deletes() {
    let stage = Stage::new();
    stage.managed.enforce_rbac();
    let mut agent = stage.start(&[]);
    put_work(&stage, &["a"], false);
    stage.wait_for_applied("w", "False");
    let denied = "not allowed to apply the resource  configmaps, n a, will try again in 1m0s: ";
    let message = stage.manifest_applied(0)["message"].to_string();
    assert!(message.contains(denied), "{message}");
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
    let all = json!({"resource": "configmaps", "namespace": "*", "name": "*"});
    let rules = json!([{"type": "JSONPaths", "jsonPaths": [{"name": "k", "path": ".data.k"}]}]);
    for kind in ["ServiceAccount", "User"] {
        stage.put_work(
            "w",
            json!({
                "workload": {"manifests": [config_map("a", "1")]},
                "executor": executor(kind),
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

/// A complete manifest is also read with the account's rights, and is applied again once its rule is gone.
#[test]
fn executor_of_a_complete_work_has_its_rights_and_edits() {
    let stage = Stage::new();
    stage.managed.enforce_rbac();
    let all = ["get", "create", "patch", "delete"];
    grant(&stage, &all, &[]);
    let mut agent = stage.start(&[]);
    let put = |suspend: bool, condition_rules: Value| {
        let mut job = object("batch/v1", "Job", "a");
        job["spec"] = json!({"suspend": suspend});
        let jobs = json!({"group": "batch", "resource": "jobs", "namespace": "*", "name": "*"});
        stage.put_work(
            "w",
            json!({
                "workload": {"manifests": [job]},
                "executor": executor("ServiceAccount"),
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
