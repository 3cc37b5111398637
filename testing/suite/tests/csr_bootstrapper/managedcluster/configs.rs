//! Client configs, annotations and version of the ManagedCluster.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use suite::{eventually, ocm::clusters, spoke::Spoke, throughout};

use crate::support::{cluster, joins};

const URL: &str = "https://spoke.example.com:6443";
const ANNOTATION: &str = "agent.open-cluster-management.io/foo";

#[test]
fn configs_and_version_are_corrected_and_annotations_set_once() {
    let spoke = Spoke::auto("configs");
    let annotation = format!("{ANNOTATION}=bar");
    let flags = ["-spoke-external-server-urls", URL, "-cluster-annotations", &annotation];
    let _agent = joins(&spoke, &flags);
    let bundle = |pem: &str| BASE64_STANDARD.encode(pem);
    let config = |authority: &str| json!({"url": URL, "caBundle": bundle(authority)});
    let configs = || cluster(&spoke)["spec"]["managedClusterClientConfigs"].clone();
    let set = |configs: Value| {
        let spec = json!({"managedClusterClientConfigs": configs});
        spoke.hub.change(&spoke.cluster, &json!({"spec": spec}));
    };
    let ours = config(&spoke.managed.ca);
    assert_eq!(configs(), json!([ours]), "from the creation on");
    // The number of entries is the same, the authority is another.
    set(json!([config(&spoke.hub.cluster.ca)]));
    eventually("the authority is put right", || configs() == json!([ours]));
    let theirs = json!({"url": "https://other.example.com", "caBundle": bundle("theirs")});
    set(json!([theirs]));
    eventually("ours is put beside theirs", || configs() == json!([theirs, ours]));

    let version = || cluster(&spoke)["status"]["version"]["kubernetes"].clone();
    let answer = spoke.managed.client.text("/version").expect("the version").1;
    let expected: Value = serde_json::from_str(&answer).expect("JSON");
    eventually("the version is told", || version() == expected["gitVersion"]);
    let clusters = clusters();
    let status = clusters.cluster_object(&spoke.cluster).status();
    spoke.hub.cluster.merge(&status, &json!({"status": {"version": {"kubernetes": "v0.0.1"}}}));
    eventually("the version is told again", || version() == expected["gitVersion"]);

    // As upstream gives them: what an administrator makes of them stays.
    let annotation = || cluster(&spoke)["metadata"]["annotations"][ANNOTATION].clone();
    assert_eq!(annotation(), "bar");
    spoke.hub.change(&spoke.cluster, &json!({"metadata": {"annotations": {ANNOTATION: "other"}}}));
    throughout(1500, "it stays", || annotation() == "other");
    assert_eq!(configs(), json!([theirs, ours]));
}
