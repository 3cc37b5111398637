//! Add-ons of a cluster that moves to another one of several hubs.

use apiclient::resource::NAMESPACES;
use serde_json::json;
use suite::{
    ocm::{Bootstrap, Hub},
    within,
};

use super::support::*;
use crate::joining::two_hubs::{SECONDS, TwoHubs};

/// On the old hub alone.
const OTHER: &str = "addon2";
const OTHER_SECRET: &str = "addon2-hub-kubeconfig";

#[test]
fn addon_registration_follows_to_another_hub() {
    let mut stage = TwoHubs::new("addon-switched", Bootstrap::Auto);
    let agent = stage.joins_first(&[]);
    let namespace = stage.spoke.addon_namespace();
    let register = |hub: &Hub, name: &str| {
        hub.add_addon(&stage.spoke.cluster, name, &namespace);
        let status = json!({"registrations": of_signer(KUBE_CLIENT)});
        hub.set_addon_status(&stage.spoke.cluster, name, &status);
    };
    for (name, secret) in [(OTHER, OTHER_SECRET), (ADDON, KUBE_CLIENT_SECRET)] {
        register(&stage.spoke.hub, name);
        stage.spoke.hub.approve_next(&stage.spoke.cluster);
        certificate(&stage.spoke.managed, &namespace, secret, None);
    }
    // Of an earlier time of the cluster on hub2.
    let own = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": stage.spoke.cluster},
    });
    stage.second.cluster.create(&NAMESPACES.everywhere(), &own);
    register(&stage.second, ADDON);
    let before = data(&stage.spoke.managed, &namespace, KUBE_CLIENT_SECRET);
    stage.spoke.hub.deny(&stage.spoke.cluster);
    let old = stage.is_on_second(&agent);
    let request = within(SECONDS, "the add-on asks hub2", || csrs(&stage.spoke).pop());
    stage.spoke.hub.approve_csr(request["metadata"]["name"].as_str().expect("a name"));
    let (after, issued) =
        certificate(&stage.spoke.managed, &namespace, KUBE_CLIENT_SECRET, before.as_ref());
    assert_eq!(issued.bearer.common_name, user(&stage.spoke));
    let kubeconfig = String::from_utf8_lossy(&after["kubeconfig"]).into_owned();
    assert!(kubeconfig.contains(&stage.way.address.to_string()), "{kubeconfig}");
    is_known(&after);
    gone(&stage.spoke.managed, &namespace, OTHER_SECRET);
    assert_eq!(csrs(&stage.spoke).len(), 1, "one request on hub2");
    assert!(old.addon(&stage.spoke.cluster, OTHER).is_some(), "hub1 has both as before");
}
