//! Client configs, annotations and version of the ManagedCluster.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use suite::{
    eventually,
    needs::{Need, needs},
    ocm::clusters,
    spoke::Spoke,
    throughout,
};

use crate::support::{arrived, cluster, joined, joins};

const URL: &str = "https://spoke.example.com:6443";
const FLAG: &str = "-spoke-external-server-urls";
const PREFIX: &str = "agent.open-cluster-management.io";

fn configs(spoke: &Spoke) -> Value {
    cluster(spoke)["spec"]["managedClusterClientConfigs"].clone()
}

fn bundle(pem: &str) -> String {
    BASE64_STANDARD.encode(pem)
}

fn set_configs(spoke: &Spoke, configs: &Value) {
    spoke.hub.change(&spoke.cluster, &json!({"spec": {"managedClusterClientConfigs": configs}}));
}

#[track_caller]
fn wait_for_configs(spoke: &Spoke, wanted: &Value) {
    eventually("the client configs are as they should be", || configs(spoke) == *wanted);
}

#[test]
fn external_urls_are_reported_with_the_authority_and_put_right() {
    let spoke = Spoke::auto("urls");
    let _agent = joins(&spoke, &[FLAG, URL]);
    let ours = json!({"url": URL, "caBundle": bundle(&spoke.managed.ca)});
    assert_eq!(configs(&spoke), json!([ours]), "from the creation on");

    // The number of entries is the same, the authority is another.
    set_configs(&spoke, &json!([{"url": URL, "caBundle": bundle(&spoke.hub.cluster.ca)}]));
    wait_for_configs(&spoke, &json!([ours]));

    let theirs = json!({"url": "https://other.example.com", "caBundle": bundle("theirs")});
    set_configs(&spoke, &json!([theirs]));
    wait_for_configs(&spoke, &json!([theirs, ours]));
    throughout(2000, "and then there is peace", || configs(&spoke) == json!([theirs, ours]));
    if needs(Need::Embedded, "requests are recorded there") {
        let writes = arrived(&spoke, "update managedclusters");
        throughout(1500, "nothing is written", || {
            arrived(&spoke, "update managedclusters") == writes
        });
        assert_eq!(writes, 2);
    }
}

// ocm clusterannotations_test.go:21
#[test]
fn annotations_without_the_agents_prefix_are_dropped() {
    let spoke = Spoke::auto("annotations");
    let (a, b) = (format!("{PREFIX}/foo"), format!("{PREFIX}/bar"));
    let given = format!("{a}=bar,{b}=foo=x,foo=bar,example.com/c=d");
    let _agent = joins(&spoke, &["-cluster-annotations", &given]);
    let seen = || cluster(&spoke)["metadata"]["annotations"].clone();
    assert_eq!((&seen()[&a], &seen()[&b]), (&json!("bar"), &json!("foo=x")), "at the creation");
    for dropped in ["foo", "example.com/c"] {
        assert!(seen()[dropped].is_null(), "{}", seen());
    }
    // They are given once, as upstream gives them: what an administrator makes of them stays.
    let patch = json!({"metadata": {"annotations": {&a: "other", "theirs": "1", &b: null}}});
    spoke.hub.change(&spoke.cluster, &patch);
    throughout(1500, "it stays", || seen()[&a] == "other" && seen()[&b].is_null());
    assert_eq!(seen()["theirs"], "1");
    assert!(seen()["open-cluster-management.io/automatically-accepted-on"].is_string());
}

#[test]
fn the_version_of_kubernetes_is_reported_and_corrected() {
    let (spoke, _agent) = joined("version", &[]);
    let answer = spoke.managed.client.text("/version").expect("the version").1;
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let told = || cluster(&spoke)["status"]["version"]["kubernetes"].clone();
    eventually("the version is told", || told() == answer["gitVersion"]);
    let clusters = clusters();
    let status = clusters.cluster_object(&spoke.cluster).status();
    spoke.hub.cluster.merge(&status, &json!({"status": {"version": {"kubernetes": "v0.0.1"}}}));
    eventually("the version is told again", || told() == answer["gitVersion"]);
}
