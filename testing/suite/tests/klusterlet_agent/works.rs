//! Works that are absent, and manifests that cannot be applied.

use serde_json::json;
use suite::{
    eventually, stays,
    work::{Stage, config_map},
};

#[test]
fn absent_work_is_evicted_after_the_grace_period() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    stage.apply(&[config_map("a", "1")]);
    stage.wait_for_applied("w", "True");
    stage.lose_work("w");
    eventually("evicted", || stage.records().is_empty());
    assert_eq!(stage.data("a"), None);
    agent.wait_for("AppliedManifestWorkEvicted");
    agent.terminate();
}

#[test]
fn absent_work_stays_with_evict_never() {
    let stage = Stage::new();
    let mut agent = stage.start(&["--evict=never"]);
    stage.apply(&[config_map("a", "1")]);
    stage.wait_for_applied("w", "True");
    stage.lose_work("w");
    stays("the object", || stage.data("a").is_some());
    agent.terminate();
}

#[test]
fn manifest_that_fails_keeps_no_other_from_its_place() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    stage.apply(&[config_map("a", "1"), config_map("b", "1")]);
    stage.wait_for_applied("w", "True");
    let metadata = json!({"name": "x", "namespace": "n"});
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": metadata});
    stage.apply(&[unknown, config_map("b", "2")]);
    stage.wait_for_applied("w", "False");
    eventually("pruned", || stage.data("a").is_none());
    assert_eq!(stage.data("b"), Some(json!("2")));
    agent.wait_for("the server doesn't have a resource type \"Nothing\"");
    agent.terminate();
}

/// Its rights are to be those of an account, which this agent does not take on.
#[test]
fn work_with_an_executor_is_not_applied() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    let account = json!({"name": "a", "namespace": "n"});
    let executor = json!({"subject": {"type": "ServiceAccount", "serviceAccount": account}});
    let manifests = [config_map("a", "1")];
    stage.put_work("w", json!({"workload": {"manifests": manifests}, "executor": executor}));
    stage.wait_for_applied("w", "False");
    assert_eq!(stage.data("a"), None);
    agent.wait_for("an executor is not supported");
    agent.terminate();
}
