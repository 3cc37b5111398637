//! What users would lose: works applied, edited, pruned and deleted; nothing left behind, nothing deleted in doubt.

use rustls::DEFAULT_VERSIONS;
use serde_json::json;
use suite::{
    eventually, https,
    ocm::AVAILABLE,
    sidecar::families,
    spoke::AGENT,
    work::{API, NAMESPACE, Stage, config_map},
};

use crate::both;

#[test]
fn work_is_applied_edited_pruned_and_deleted() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    stage.apply(&[config_map("a", "1"), config_map("b", "1")]);
    stage.wait_for_applied("w", "True");
    assert_eq!((stage.data("a"), stage.data("b")), (Some(json!("1")), Some(json!("1"))));
    stage.apply(&[config_map("b", "2")]);
    eventually("pruned", || stage.data("a").is_none());
    stage.wait_for_applied("w", "True");
    assert_eq!(stage.data("b"), Some(json!("2")));
    stage.set_data("b", "theirs");
    eventually("drift mended", || stage.data("b") == Some(json!("2")));
    stage.managed.delete("v1", "configmaps", NAMESPACE, "b");
    eventually("made anew", || stage.data("b") == Some(json!("2")));
    agent.wait_for_code("/readyz", 200);
    let metrics = agent.ask("/metrics").1;
    assert!(metrics.contains("sidecar_manifestworks{applied=\"True\",available=\"True\"} 1\n"));
    assert!(metrics.contains("sidecar_drift_corrected_total 2\n"), "{metrics}");
    stage.delete_work("w");
    eventually("gone", || stage.work("w").is_null());
    assert_eq!((stage.data("b"), stage.records().len()), (None, 0));
    agent.terminate();
}

#[test]
fn kills_leave_nothing_behind() {
    let stage = Stage::new();
    for round in 0..8 {
        let mut agent = stage.start(&[]);
        let name = |n: u32| format!("m{round}-{n}");
        stage.apply(&(0..10).map(|n| config_map(&name(n), "1")).collect::<Vec<_>>());
        eventually("the first object", || stage.data(&name(0)).is_some());
        agent.kill();
    }
    stage.apply(&[config_map("last", "1")]);
    let mut agent = stage.start(&[]);
    stage.wait_for_applied("w", "True");
    eventually("pruned", || {
        let maps = stage.managed.list("v1", "configmaps", NAMESPACE);
        maps.len() == 1 && maps[0]["metadata"]["name"] == "last"
    });
    agent.terminate();
}

#[test]
fn restored_hub_evicts_nothing() {
    let stage = Stage::new();
    let backup = stage.hub.backup();
    let mut agent = stage.start(&[]);
    for n in 0..4 {
        let manifests = [config_map(&format!("m{n}"), "1")];
        stage.put_work(&format!("w{n}"), json!({"workload": {"manifests": manifests}}));
    }
    eventually("all applied", || (0..4).all(|n| stage.data(&format!("m{n}")).is_some()));
    agent.terminate();
    stage.hub.restore(&backup);
    let mut agent = stage.start(&[]);
    eventually("the refusal", || {
        agent
            .ask("/readyz")
            .1
            .contains("4 of 4 works are absent, so many together: none is evicted")
    });
    stage.apply(&[config_map("new", "1")]);
    stage.wait_for_applied("w", "True");
    assert!((0..4).all(|n| stage.data(&format!("m{n}")).is_some()));
    assert_eq!(stage.records().len(), 5);
    agent.terminate();
}

/// What the final spec says counts, also if nobody saw it.
#[test]
fn orphans_of_a_final_spec_stay() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    stage.apply(&[config_map("a", "1")]);
    stage.wait_for_applied("w", "True");
    agent.kill();
    let manifests = [config_map("a", "1")];
    let option = json!({"propagationPolicy": "Orphan"});
    stage.put_work("w", json!({"workload": {"manifests": manifests}, "deleteOption": option}));
    stage.delete_work("w");
    let mut agent = stage.start(&[]);
    eventually("gone", || stage.work("w").is_null() && stage.records().is_empty());
    let orphan = stage.managed.get("v1", "configmaps", NAMESPACE, "a").expect("the orphan");
    assert!(orphan["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty));
    agent.terminate();
}

#[test]
fn operators_singleton_joins_and_applies_works() {
    let spoke = both::spoke("both-joins");
    let (mut agent, https) = both::start(&spoke, "a");
    agent.wait_for("-kube-api-qps is ignored");
    both::apply(&spoke, "1");
    both::wait_for_applied(&spoke, "1");
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    eventually("a leader", || spoke.managed.leader(&spoke.namespace, both::LOCK));
    agent.wait_for_code("/readyz", 200);
    let records = spoke.managed.server().list(API, "appliedmanifestworks", "");
    assert_eq!(records[0]["spec"]["agentID"], AGENT);
    let (code, metrics, _) = https::get(https, "/metrics", DEFAULT_VERSIONS).expect("an answer");
    assert_eq!(code, 200);
    let leads = format!("leader_election_master_status{{name=\"{}\"}} 1\n", both::LOCK);
    for part in [&*leads, "sidecar_build_info{name=\"klusterlet-agent\"", "sidecar_manifests{"] {
        assert!(metrics.contains(part), "no {part} in {metrics}");
    }
    assert!(families(&metrics).contains(&"sidecar_lease_renewals_total"));
    agent.stops_as_asked();
}
