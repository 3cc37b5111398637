//! Servers and other writers that misbehave.

use std::time::{Duration, Instant};

use dev_apiserver::{Resource, Rule, State};
use serde_json::json;
use suite::{
    eventually,
    faults::code,
    pause, stays, throughout, within,
    work::{NAMESPACE, Stage, config_map, thing},
};

#[test]
fn fight_with_another_writer_is_slow() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    stage.apply(&[config_map("a", "1")]);
    stage.wait_for_applied("w", "True");
    let (end, mut repairs) = (Instant::now() + Duration::from_secs(10), 0);
    while Instant::now() < end {
        if stage.data("a") == Some(json!("1")) {
            repairs += 1;
            stage.set_data("a", "theirs");
        }
        pause(50);
    }
    assert!((3..=5).contains(&repairs), "{repairs}");
    eventually("mended", || stage.data("a") == Some(json!("1")));
    agent.terminate();
}

#[test]
fn kind_that_cannot_be_watched_is_named() {
    let stage = Stage::new();
    stage.managed.faults().deny("list", "configmaps", "");
    let mut agent = stage.start(&[]);
    stage.apply(&[config_map("a", "1")]);
    stage.wait_for_applied("w", "True");
    eventually("the remark", || {
        agent.ask("/readyz").1.contains("configmaps cannot be watched, and is polled\n")
    });
    agent.terminate();
}

#[test]
fn objects_whose_kind_cannot_be_listed_are_read_at_each_interval() {
    let stage = Stage::new();
    stage.managed.faults().add(Rule::new(code(500)).verb("list").resource("configmaps"));
    let mut agent = stage.start(&["--status-sync-interval=1s"]);
    stage.apply(&[config_map("a", "1")]);
    stage.wait_for_applied("w", "True");
    stage.set_data("a", "theirs");
    eventually("mended", || stage.data("a") == Some(json!("1")));
    agent.terminate();
}

/// A gateway answers so for paths that it does not know.
#[test]
fn object_is_remembered_while_its_group_is_not_found() {
    let stage = Stage::new();
    stage.managed.register(Resource::custom("example.com", "v1", "things", "Thing", true));
    let mut agent = stage.start(&[]);
    stage.apply(&[thing("t", json!({}))]);
    stage.wait_for_applied("w", "True");
    agent.terminate();
    for path in ["/apis/example.com", "/apis/example.com/v1"] {
        stage.managed.faults().add(Rule::new(code(404)).resource(path));
    }
    let mut agent = stage.start(&[]);
    stage.apply(&[config_map("a", "1")]);
    stage.wait_for_applied("w", "True");
    let recorded = || stage.records()[0]["status"]["appliedResources"].to_string();
    stays("the entry", || recorded().contains("things"));
    stage.managed.faults().clear();
    eventually("pruned", || !recorded().contains("things"));
    assert_eq!(stage.managed.get("example.com/v1", "things", NAMESPACE, "t"), None);
    agent.terminate();
}

/// A restart would not help, and would interrupt the work with the other server.
#[test]
fn silent_servers_are_no_reason_for_a_restart() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    stage.apply(&[config_map("a", "1")]);
    stage.wait_for_applied("w", "True");
    let servers = [&stage.hub, &stage.managed];
    servers.iter().for_each(|server| server.faults().set_state(State::Hang));
    throughout(15_000, "it lives", || agent.ask("/healthz").0 == 200);
    servers.iter().for_each(|server| server.faults().set_state(State::Up));
    stage.apply(&[config_map("a", "2")]);
    within(120, "the edit", || stage.data("a") == Some(json!("2")));
    agent.ends_at_once();
}

/// With the hub's URL all records have other names.
#[test]
fn objects_outlive_a_change_of_the_hub_s_url() {
    let stage = Stage::new();
    let agent_id = ["--agent-id=k"];
    let mut agent = stage.start(&agent_id);
    stage.apply(&[config_map("a", "1")]);
    stage.wait_for_applied("w", "True");
    let uid = || {
        let object = stage.managed.get("v1", "configmaps", NAMESPACE, "a");
        object.map(|object| object["metadata"]["uid"].clone())
    };
    let before = uid();
    agent.terminate();
    let denied =
        ["patch", "update"].map(|verb| stage.managed.faults().deny(verb, "configmaps", ""));
    stage.move_hub();
    let mut agent = stage.start(&agent_id);
    eventually("a second record", || stage.records().len() == 2);
    stays("both", || stage.records().len() == 2 && uid() == before);
    denied.into_iter().for_each(|rule| stage.managed.faults().remove(rule));
    eventually("one record", || stage.records().len() == 1);
    assert_eq!(uid(), before);
    agent.terminate();
}
