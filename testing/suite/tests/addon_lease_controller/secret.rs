//! The Secret with the hub's credentials: where it is, what it holds, when it changes.

use apiclient::resource::SECRETS;
use suite::{
    cluster::Cluster,
    eventually, real,
    scene::{SECRET, Scene, manifests},
};

use crate::support::{failures, renews};

#[test]
fn new_hub_with_another_authority_is_followed() {
    let scene = Scene::new("newhub");
    let hub = if real() { Cluster::real("managed") } else { Cluster::embedded("new hub") };
    hub.create_namespace(&scene.cluster);
    for manifest in manifests("hub") {
        hub.apply(&manifest, &scene.cluster);
    }
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.put_secret(&scene.credentials_for(&hub, &hub.address));
    eventually("the Lease is on the new hub", || hub.get(&scene.hub_lease()).is_some());
    scene.ages(1500);
    renews(&sidecar, "hub", 1);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn secret_of_the_same_name_elsewhere_is_ignored() {
    let scene = Scene::new("twin");
    let other = scene.managed.new_namespace("twin-other");
    let twin = SECRETS.object(&other, SECRET);
    let mut secret =
        scene.managed.get(&SECRETS.object(&scene.namespace, SECRET)).expect("a Secret");
    // No key: whoever followed it would say so.
    secret["data"]["tls.key"] = "bm8ga2V5".into();
    secret["metadata"] = serde_json::json!({"name": SECRET, "namespace": other});
    let sidecar = scene.start_as(|command| {
        command.env("WATCH_NAMESPACE", "");
    });
    scene.wait_for_renewals(1);
    scene.managed.create(&twin, &secret);
    scene.wait_for_renewals(2);
    scene.managed.delete(&twin);
    scene.wait_for_renewals(2);
    assert_eq!(sidecar.count("credentials"), 1, "{}", sidecar.log());
    assert_eq!(sidecar.metric("certwatcher_read_certificate_total{target=\"hub\"}"), Some(1.0));
}
