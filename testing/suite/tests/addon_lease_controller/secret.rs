//! The Secret with the hub's credentials: where it is, what it holds, when it changes.

use serde_json::json;
use shared::resource::SECRETS;
use suite::{
    cluster::Cluster,
    identity::Data,
    real,
    scene::{SECRET, Scene, manifests},
    stays, throughout, within,
};

use crate::support::{Rhythm, failures, renews, secret};

#[test]
fn kalc14_watch_namespace_says_where_the_secret_is() {
    let scene = Scene::new("watchns");
    let other = scene.managed.new_namespace("watchns");
    scene.grant_in(&other);
    let mut moved = scene.managed.get(&secret(&scene)).expect("the Secret");
    moved["metadata"] = json!({"name": SECRET, "namespace": other});
    scene.delete_secret();
    scene.managed.create(&shared::resource::SECRETS.object(&other, SECRET), &moved);
    let _sidecar = scene.start_as(|command| {
        command.env("WATCH_NAMESPACE", &other);
    });
    scene.wait_for_renewals(1);
}

#[test]
fn a_new_hub_with_another_authority_is_followed() {
    let scene = Scene::new("newhub");
    let hub = if real() { Cluster::real("managed") } else { Cluster::embedded("new hub") };
    hub.create_namespace(&scene.cluster);
    for manifest in manifests("hub") {
        hub.apply(&manifest, &scene.cluster);
    }
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.put_secret(&scene.credentials_for(&hub, &hub.address));
    within(4, "the Lease is on the new hub", || hub.get(&scene.hub_lease()).is_some());
    scene.ages(1500);
    renews(&sidecar, "hub", 1);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn the_same_hub_at_another_address_is_followed() {
    let scene = Scene::new("moved");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let rhythm = Rhythm::of(&scene);
    let address = scene.hub.address.clone();
    scene.put_secret(&scene.credentials_for(&scene.hub, &address));
    sidecar.wait_for("credentials rotated server=\"the hub\"");
    scene.hub_relay.set(suite::relay::Way::Closed);
    renews(&sidecar, "hub", 2);
    let gap = rhythm.longest_gap();
    assert!(gap < std::time::Duration::from_secs(3), "{gap:?}");
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn kalc13_a_secret_of_the_same_name_elsewhere_is_nothing_to_us() {
    let scene = Scene::new("kalc13");
    let other = scene.managed.new_namespace("kalc13-other");
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

#[test]
fn kalc15_a_secret_that_is_being_deleted_starts_nothing() {
    let scene = Scene::new("kalc15");
    let target = SECRETS.object(&scene.namespace, SECRET);
    scene.managed.hold(&target);
    scene.delete_secret();
    let mut sidecar = scene.start(&[]);
    sidecar.wait_for("waiting for the Secret");
    throughout(1500, "there is no Lease", || scene.lease().is_none());
    assert!(sidecar.alive());
    scene.managed.release(&target);
    within(5, "it is gone", || scene.managed.get(&target).is_none());
    scene.put_secret(&scene.new_credentials());
    scene.wait_for_renewals(1);
}

#[test]
fn kalc23_a_change_is_noticed_when_it_happens() {
    let scene = Scene::new("kalc23");
    scene.delete_secret();
    let sidecar = scene.start(&["-lease-duration", "3600"]);
    sidecar.wait_for("waiting for the Secret");
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for("period=3600.0");
}

#[test]
fn f20_half_of_a_rotated_pair_leaves_the_old_pair_in_use() {
    let scene = Scene::new("torn");
    let mut old = scene.new_credentials();
    scene.put_secret(&old);
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let new = scene.new_credentials();
    old.insert("tls.crt".into(), new["tls.crt"].clone());
    scene.put_secret(&old);
    sidecar.wait_for("keeping the current");
    sidecar.wait_for("do not belong together");
    renews(&sidecar, "hub", 2);
    scene.put_secret(&new);
    sidecar.wait_for("credentials rotated");
    renews(&sidecar, "hub", 1);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn kalc_d195_a_token_next_to_the_kubeconfig_is_used() {
    let scene = Scene::new("d195");
    scene.create_hub_account();
    let kubeconfig = scene.hub_kubeconfig(&serde_json::json!({"tokenFile": "token"}));
    let data: Data = [("kubeconfig", kubeconfig), ("token", scene.hub_token())]
        .map(|(key, value)| (key.to_owned(), value.into_bytes()))
        .into();
    scene.put_secret(&data);
    let _sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
}

#[test]
fn kalc_d707_a_hub_whose_certificate_is_not_trusted_is_not_used() {
    let scene = Scene::new("d707");
    let mut data = scene.new_credentials();
    let address = scene.hub_relay.address.to_string();
    let user = serde_json::json!({"client-certificate": "tls.crt", "client-key": "tls.key"});
    let kubeconfig = suite::identity::kubeconfig(&address, &scene.managed.ca, &user);
    data.insert("kubeconfig".into(), kubeconfig.to_string().into_bytes());
    scene.put_secret(&data);
    let sidecar = scene.start(&[]);
    sidecar.wait_for("lease renewal failed");
    assert!(sidecar.log().contains("certificate"), "{}", sidecar.log());
    stays("there is no Lease", || scene.lease().is_none());
    scene.put_secret(&scene.new_credentials());
    scene.wait_for_renewals(1);
}
