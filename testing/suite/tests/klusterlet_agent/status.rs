//! What objects report to the hub: feedback values, and conditions by rules.

use serde_json::{Value, json};
use suite::{
    eventually, pause, stays, within,
    work::{NAMESPACE, Stage, config_map, object},
};

/// Puts the work `w` with a manifest and the options for all objects of its kind.
fn put_work(stage: &Stage, manifest: &Value, (group, plural): (&str, &str), options: Value) {
    let mut config = options;
    config["resourceIdentifier"] =
        json!({"group": group, "resource": plural, "namespace": "*", "name": "*"});
    stage
        .put_work("w", json!({"workload": {"manifests": [manifest]}, "manifestConfigs": [config]}));
    stage.wait_for_applied("w", "True");
}

fn set_status(stage: &Stage, api: &str, plural: &str, status: &Value) {
    stage.managed.alter(api, plural, NAMESPACE, "a", |object| {
        object["status"] = status.clone();
        true
    });
}

/// The entry of the first manifest.
fn entry(stage: &Stage) -> Value {
    stage.work("w")["status"]["resourceStatus"]["manifests"][0].clone()
}

/// A value of the first manifest.
fn value(stage: &Stage, name: &str) -> Option<Value> {
    let entry = entry(stage);
    let values = entry["statusFeedback"]["values"].as_array()?;
    let value = values.iter().find(|value| value["name"] == name)?;
    Some(value["fieldValue"].clone())
}

/// Status and reason of a condition.
fn condition(of: &Value, kind: &str) -> Option<(Value, Value)> {
    let conditions = of["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some((condition["status"].clone(), condition["reason"].clone()))
}

#[test]
fn watched_values_reach_the_hub_within_a_second() {
    let stage = Stage::new();
    let mut agent = stage.start(&["--status-sync-interval=1h"]);
    let rules = json!([
        {"type": "WellKnownStatus"},
        {"type": "JSONPaths", "jsonPaths": [{"name": "name", "path": ".metadata.name"}]},
    ]);
    let options = json!({"feedbackRules": rules, "feedbackScrapeType": "Watch"});
    let deployment = object("apps/v1", "Deployment", "a");
    put_work(&stage, &deployment, ("apps", "deployments"), options);
    assert_eq!(value(&stage, "name"), Some(json!({"type": "String", "string": "a"})));
    agent.wait_for_code("/readyz", 200);
    for replicas in 1..4 {
        set_status(&stage, "apps/v1", "deployments", &json!({"replicas": replicas}));
        within(2, "the value", || {
            value(&stage, "Replicas") == Some(json!({"type": "Integer", "integer": replicas}))
        });
    }
    let synced = condition(&entry(&stage), "StatusFeedbackSynced");
    assert_eq!(synced, Some((json!("True"), json!("StatusFeedbackSynced"))));
    agent.terminate();
}

#[test]
fn status_that_another_writer_changes_is_written_once_more() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    stage.apply(&[config_map("a", "1")]);
    stage.wait_for_applied("w", "True");
    pause(2000);
    stage.managed.clear_requests();
    stage.alter_work("w", "status", json!({}));
    stage.wait_for_applied("w", "True");
    let passes = || {
        let requests = stage.managed.requests();
        requests.iter().filter(|request| request.resource == "appliedmanifestworks").count()
    };
    stays("one pass", || passes() == 1);
    agent.terminate();
}

/// The second value waits for the interval, which bounds what a busy status costs the hub.
#[test]
fn polled_values_reach_the_hub_at_the_interval() {
    let stage = Stage::new();
    let interval = ["--status-sync-interval=4s"];
    let mut agent = stage.start(&interval);
    let options = json!({"feedbackRules": [{"type": "WellKnownStatus"}]});
    let job = object("batch/v1", "Job", "a");
    put_work(&stage, &job, ("batch", "jobs"), options);
    let set = |succeeded: i64| {
        set_status(&stage, "batch/v1", "jobs", &json!({"succeeded": succeeded}));
    };
    let has = |succeeded: i64| {
        value(&stage, "JobSucceeded") == Some(json!({"type": "Integer", "integer": succeeded}))
    };
    set(1);
    eventually("the first value", || has(1));
    set(2);
    stays("the first value", || has(1));
    eventually("the second value", || has(2));
    agent.terminate();
}

#[test]
fn deletion_of_a_read_only_object_is_reported() {
    let stage = Stage::new();
    stage.managed.put(config_map("a", "1"));
    let mut agent = stage.start(&["--status-sync-interval=1h"]);
    let rules = json!([{"type": "JSONPaths", "jsonPaths": [{"name": "k", "path": ".data.k"}]}]);
    let options = json!({"updateStrategy": {"type": "ReadOnly"}, "feedbackRules": rules});
    put_work(&stage, &config_map("a", "1"), ("", "configmaps"), options);
    assert_eq!(value(&stage, "k"), Some(json!({"type": "String", "string": "1"})));
    agent.wait_for_code("/readyz", 200);
    stage.managed.delete("v1", "configmaps", NAMESPACE, "a");
    within(2, "not available", || {
        condition(&entry(&stage), "Available").is_some_and(|(status, _)| status == "False")
    });
    assert_eq!(stage.manifest_applied(0)["status"], "True", "nothing is applied");
    agent.terminate();
}

#[test]
fn secrets_are_not_reported() {
    let stage = Stage::new();
    let mut agent = stage.start(&["--feature-gates=RawFeedbackJsonString=true"]);
    let mut secret = object("v1", "Secret", "a");
    secret["data"] = json!({"k": "c2VjcmV0"});
    let rules = json!([{"type": "JSONPaths", "jsonPaths": [{"name": "k", "path": ".data"}]}]);
    put_work(&stage, &secret, ("", "secrets"), json!({"feedbackRules": rules}));
    let synced = condition(&entry(&stage), "StatusFeedbackSynced");
    assert_eq!(synced, Some((json!("False"), json!("StatusFeedbackSyncFailed"))));
    assert!(!stage.work("w")["status"].to_string().contains("c2VjcmV0"));
    agent.terminate();
}

/// A complete work is watched and reported, but applied no more.
#[test]
fn complete_job_is_not_applied_again() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    let mut job = object("batch/v1", "Job", "a");
    job["spec"] = json!({"suspend": false});
    let rules = json!([{"type": "WellKnownConditions", "condition": "Complete"}]);
    let options = json!({"conditionRules": rules, "feedbackScrapeType": "Watch"});
    put_work(&stage, &job, ("batch", "jobs"), options);
    let complete = |of: &Value| condition(of, "Complete");
    assert_eq!(complete(&entry(&stage)), Some((json!("False"), json!("ConditionRuleEvaluated"))));
    let finished = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    set_status(&stage, "batch/v1", "jobs", &finished);
    eventually("complete", || {
        complete(&stage.work("w")["status"])
            == Some((json!("True"), json!("ConditionRulesAggregated")))
    });
    let mut spec = stage.work("w")["spec"].clone();
    spec["workload"]["manifests"] = json!([job, config_map("b", "1")]);
    stage.put_work("w", spec);
    stays("not applied", || stage.data("b").is_none());
    stage.managed.delete("batch/v1", "jobs", NAMESPACE, "a");
    eventually("not available", || {
        condition(&entry(&stage), "Available").is_some_and(|(status, _)| status == "False")
    });
    agent.terminate();
}

#[test]
fn cel_rule_is_refused_visibly() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    let rules = json!([{"type": "CEL", "condition": "Progressing", "celExpressions": ["true"]}]);
    let map = config_map("a", "1");
    put_work(&stage, &map, ("", "configmaps"), json!({"conditionRules": rules}));
    let invalid = (json!("Unknown"), json!("ConditionRuleInvalid"));
    assert_eq!(condition(&entry(&stage), "Progressing"), Some(invalid));
    let aggregated = condition(&stage.work("w")["status"], "Progressing");
    assert_eq!(aggregated, Some((json!("Unknown"), json!("ConditionRulesAggregated"))));
    put_work(&stage, &map, ("", "configmaps"), json!({}));
    eventually("the condition goes with its rule", || {
        condition(&stage.work("w")["status"], "Progressing").is_none()
    });
    agent.terminate();
}
