//! klusterlet-agent and works of any size and shape.

use dev_apiserver::Resource;
use serde_json::json;
use suite::{
    sidecar::Sidecar,
    within,
    work::{NAMESPACE, Stage, config_map, thing},
};

/// The memory limit of the pod, in KiB.
const MEMORY: u64 = 32 << 10;
/// Seconds for works as large as they may be, on a busy machine.
const PATIENCE: u64 = 240;

fn fits(agent: &Sidecar) {
    let peak = agent.memory("VmHWM");
    assert!(peak < MEMORY, "{peak} KiB");
}

#[test]
fn work_of_512_kib_is_applied_whatever_its_shape() {
    let stage = Stage::new();
    stage.managed.register(Resource::custom("example.com", "v1", "things", "Thing", true));
    let mut agent = stage.start_shipped();
    let keys = (0..8_000).map(|n| (format!("{n:05}"), json!("x".repeat(40))));
    let deep = (0..100).fold(json!(0), |inner, _| json!([inner]));
    let shapes = [
        thing("text", json!({"text": "x".repeat(480 << 10)})),
        thing("list", json!({"list": vec![0; 60 << 10]})),
        thing("map", json!({"map": keys.collect::<serde_json::Map<_, _>>()})),
        thing("deep", json!({"deep": deep})),
    ];
    for shape in &shapes {
        stage.apply(std::slice::from_ref(shape));
        stage.wait_for_applied("w", "True");
    }
    // A tree of this costs more than the text.
    stage.apply(&[thing("many", json!({"list": vec![0; 100 << 10]})), config_map("a", "1")]);
    stage.wait_for_applied("w", "False");
    let applied = stage.manifest_applied(0);
    let why = "the manifest takes more than 3 MiB of memory";
    assert!(applied["message"].as_str().is_some_and(|text| text.contains(why)), "{applied}");
    assert_eq!(stage.manifest_applied(1)["status"], "True");
    let many = (0..500).map(|n| config_map(&format!("m{n}"), &"x".repeat(800))).collect::<Vec<_>>();
    stage.apply(&many);
    stage.wait_for_applied_within(PATIENCE, "w", "True");
    assert_eq!(stage.managed.list("v1", "configmaps", NAMESPACE).len(), 500);
    fits(&agent);
    agent.terminate();
}

#[test]
fn thousand_works_are_applied() {
    let stage = Stage::new();
    for n in 0..1_000 {
        let manifests = [config_map(&format!("m{n}"), "1")];
        stage.put_work(&format!("w{n}"), json!({"workload": {"manifests": manifests}}));
    }
    let mut agent = stage.start_shipped();
    within(PATIENCE, "all of them", || {
        agent.metric("sidecar_manifestworks{applied=\"True\",available=\"True\"}") == Some(1_000.0)
    });
    fits(&agent);
    agent.terminate();
}
