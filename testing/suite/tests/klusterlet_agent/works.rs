//! Works that are absent, and manifests that cannot be applied.

use std::ops::Range;

use dev_apiserver::{Resource, Rule};
use serde_json::json;
use suite::{
    eventually,
    faults::code,
    pause, stays,
    work::{API, CLUSTER_API, NAMESPACE, Stage, config_map, object},
};

#[test]
fn deleted_work_leaves_the_agent_at_rest() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    stage.apply(&[config_map("a", "1")]);
    stage.wait_for_applied("w", "True");
    stage.delete_work("w");
    eventually("gone", || stage.work("w").is_null() && stage.records().is_empty());
    let cpu_seconds = || agent.metric("process_cpu_seconds_total").expect("the metric");
    let before = cpu_seconds();
    stays("at rest", || cpu_seconds() - before < 0.5);
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

/// A controller of OpenShift adds a pull secret to each.
#[test]
fn service_account_keeps_what_others_set_also_at_an_edit() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    let mut account = object("v1", "ServiceAccount", "a");
    account["imagePullSecrets"] = json!([{"name": "ours"}]);
    stage.apply(&[account.clone()]);
    stage.wait_for_applied("w", "True");
    let secrets = json!([{"name": "ours"}, {"name": "theirs"}]);
    stage.managed.alter("v1", "serviceaccounts", NAMESPACE, "a", |object| {
        object["imagePullSecrets"] = secrets.clone();
        true
    });
    let live = || stage.managed.get("v1", "serviceaccounts", NAMESPACE, "a").unwrap_or_default();
    stays("theirs", || live()["imagePullSecrets"] == secrets);
    account["metadata"]["labels"] = json!({"edit": "1"});
    stage.apply(&[account]);
    eventually("the label", || live()["metadata"]["labels"]["edit"] == "1");
    assert_eq!(live()["imagePullSecrets"], secrets);
    agent.terminate();
}

/// Both works have one field manager: an edit takes the other one's field for one that the manifest named before.
#[test]
fn field_of_another_work_with_the_object_comes_back() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    let put = |work: &str, key: &str, value: &str| {
        let mut map = object("v1", "ConfigMap", "a");
        map["data"] = json!({key: value});
        stage.put_work(work, json!({"workload": {"manifests": [map]}}));
        stage.wait_for_applied(work, "True");
    };
    let data = || stage.managed.get("v1", "configmaps", NAMESPACE, "a").unwrap_or_default();
    put("w0", "x", "1");
    put("w1", "y", "1");
    for value in ["2", "3", "4"] {
        put("w0", "x", value);
        eventually("both", || data()["data"] == json!({"x": value, "y": "1"}));
    }
    agent.terminate();
}

/// Upstream's suite creates such a record by hand, next to records of absent works.
#[test]
fn record_without_objects_goes_beside_others_that_stay() {
    let stage = Stage::new();
    let mut agent = stage.start(&["--agent-id=k"]);
    put_works(&stage, 0..2);
    (0..2).for_each(|n| stage.lose_work(&format!("w{n}")));
    let spec = json!({"hubHash": "h", "agentID": "k", "manifestWorkName": "fake"});
    let (kind, metadata) = ("AppliedManifestWork", json!({"name": "h-fake"}));
    stage.managed.put(json!({"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}));
    eventually("evicted", || stage.records().len() == 2);
    stays("both objects", || stage.data("m0").is_some() && stage.data("m1").is_some());
    agent.terminate();
}

#[test]
fn managed_cluster_that_cannot_be_read_is_said_to_stop_evictions() {
    let stage = Stage::new();
    let denied = stage.hub.faults().deny("get", "managedclusters", "");
    let mut agent = stage.start(&["--evict=all"]);
    put_works(&stage, 0..1);
    stage.lose_work("w0");
    eventually("the remark", || {
        agent
            .ask("/readyz")
            .1
            .contains("1 of 1 works are absent, the hub's identity cannot be read")
    });
    stage.hub.faults().remove(denied);
    eventually("evicted", || stage.records().is_empty());
    agent.terminate();
}

/// As the hub of OCM's own tests, which has other kinds of that group.
#[test]
fn hub_without_managed_clusters_evicts() {
    let stage = Stage::without_hub_kubeconfig();
    let group = "cluster.open-cluster-management.io";
    stage.hub.register(Resource::custom(group, "v1beta1", "placements", "Placement", true));
    stage.write_hub_kubeconfig();
    let mut agent = stage.start(&[]);
    put_works(&stage, 0..1);
    stage.lose_work("w0");
    eventually("evicted", || stage.records().is_empty());
    agent.terminate();
}

/// A gateway answers so for all that it does not know.
#[test]
fn managed_cluster_that_is_not_found_stops_evictions_until_it_is() {
    let stage = Stage::new();
    stage.put_managed_cluster();
    let lost = stage.hub.faults().add(Rule::new(code(404)).resource("managedclusters"));
    let mut agent = stage.start(&[]);
    put_works(&stage, 0..1);
    stage.lose_work("w0");
    stays("the object", || stage.data("m0").is_some());
    stage.hub.faults().remove(lost);
    eventually("evicted", || stage.records().is_empty());
    agent.terminate();
}

#[test]
fn works_and_records_beyond_the_limits_of_memory_are_named() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    let mut manifest = object("example.com/v1", "Nothing", "a");
    manifest["text"] = "x".repeat(3 << 20).into();
    let entry = json!({"version": "v1", "resource": "configmaps", "name": "x".repeat(200)});
    for n in 0..3 {
        stage.put_work(&format!("w{n}"), json!({"workload": {"manifests": [manifest]}}));
        stage.managed.put(json!({
            "apiVersion": API, "kind": "AppliedManifestWork", "metadata": {"name": format!("r{n}")},
            "status": {"appliedResources": vec![&entry; 2_000]},
        }));
    }
    for (kind, name) in [("ManifestWork", "w"), ("AppliedManifestWork", "r")] {
        eventually(kind, || {
            let (_, remarks) = agent.ask("/readyz");
            remarks.lines().any(|line| {
                line.starts_with(&format!("{kind} "))
                    && line.ends_with("is ignored: it is invalid, or all together are too large")
            })
        });
        agent.wait_for(&format!(" invalid={name}"));
    }
    agent.terminate();
}

/// Puts works with a ConfigMap each.
fn put_works(stage: &Stage, numbers: Range<u8>) {
    for n in numbers.clone() {
        let manifests = [config_map(&format!("m{n}"), "1")];
        stage.put_work(&format!("w{n}"), json!({"workload": {"manifests": manifests}}));
    }
    numbers.for_each(|n| stage.wait_for_applied(&format!("w{n}"), "True"));
}

#[test]
fn more_than_a_tenth_goes_when_a_flag_says_so() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    put_works(&stage, 0..12);
    (0..2).for_each(|n| stage.lose_work(&format!("w{n}")));
    stays("all objects", || stage.data("m0").is_some() && stage.data("m1").is_some());
    agent.terminate();
    let mut agent = stage.start(&["--evict=all"]);
    eventually("evicted", || stage.records().len() == 10);
    assert_eq!((stage.data("m0"), stage.data("m1")), (None, None));
    agent.terminate();
}

/// The Go agent is blind then: its watch waits for versions that are long to come.
#[test]
fn hub_that_went_back_is_followed_and_evicts_nothing() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    put_works(&stage, 0..11);
    let backup = stage.hub.backup();
    put_works(&stage, 11..12);
    stage.hub.restore(&backup);
    agent.wait_for("the hub's versions went back");
    put_works(&stage, 12..13);
    stays("the object", || stage.data("m11").is_some());
    assert_eq!(stage.records().len(), 13);
    agent.terminate();
}

/// As while a hub is restored, or in place of one without it.
#[test]
fn managed_cluster_that_appears_evicts_nothing() {
    let stage = Stage::new();
    let mut agent = stage.start(&[]);
    put_works(&stage, 0..1);
    wait_for_identity(&stage);
    stage.put_managed_cluster();
    stage.lose_work("w0");
    agent.wait_for("the hub's ManagedCluster has changed");
    stays("the object", || stage.data("m0").is_some());
    agent.terminate();
}

#[test]
fn other_hub_of_the_same_name_evicts_nothing() {
    let stage = Stage::new();
    stage.put_managed_cluster();
    let mut agent = stage.start(&[]);
    put_works(&stage, 0..1);
    wait_for_identity(&stage);
    stage.hub.delete(CLUSTER_API, "managedclusters", "", "c");
    stage.put_managed_cluster();
    stage.lose_work("w0");
    agent.wait_for("the hub's ManagedCluster has changed");
    stays("the object", || stage.data("m0").is_some());
    agent.terminate();
}

/// Waits until the agent has read the hub's ManagedCluster.
fn wait_for_identity(stage: &Stage) {
    let is_read = || stage.hub.requests().iter().any(|it| it.resource == "managedclusters");
    eventually("the identity", is_read);
    pause(500);
}
