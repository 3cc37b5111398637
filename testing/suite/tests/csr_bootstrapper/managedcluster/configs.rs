//! Client configs of the ManagedCluster.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use suite::{eventually, spoke::Spoke};

use crate::support::{cluster, joins};

const URL: &str = "https://spoke.example.com:6443";

#[test]
fn configs_are_corrected_beside_those_of_others() {
    let spoke = Spoke::auto("configs");
    let _agent = joins(&spoke, &["-spoke-external-server-urls", URL]);
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
}
