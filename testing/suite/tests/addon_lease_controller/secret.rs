//! The life of the Secret with the hub's credentials.

use serde_json::json;
use suite::{
    cluster::Cluster,
    identity::certificate,
    real,
    scene::{SECRET, Scene, manifests},
    within,
};

use crate::support::{Rhythm, failures, renews, secret};

#[test]
fn broken_content_keeps_what_worked() {
    let scene = Scene::new("broken");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    for (round, junk) in [&b"\xff\x00"[..], b"", b"kind: Config", b"[1, 2"].iter().enumerate() {
        let mut data = scene.new_credentials();
        data.insert("kubeconfig".into(), junk.to_vec());
        scene.put_secret(&data);
        sidecar.wait_for_times("keeping the current hub credentials", round + 1);
    }
    renews(&sidecar, "hub", 2);
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for("the hub's credentials were rotated");
    renews(&sidecar, "hub", 1);
    assert_eq!(failures(&sidecar, "hub"), 0.0);
}

#[test]
fn a_certificate_with_the_key_of_another_keeps_what_worked() {
    let scene = Scene::new("pair");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let mut data = scene.new_credentials();
    let (_, key) = certificate(&scene.hub, "another", "nobody");
    data.insert("tls.key".into(), key.into_bytes());
    scene.put_secret(&data);
    sidecar.wait_for("do not belong together");
    renews(&sidecar, "hub", 2);
    assert_eq!(failures(&sidecar, "hub"), 0.0);
}

#[test]
fn a_change_of_an_unrelated_key_is_quiet() {
    let scene = Scene::new("unrelated");
    let mut data = scene.new_credentials();
    scene.put_secret(&data);
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let before = sidecar.log();
    data.insert("cluster-name".into(), b"cluster1".to_vec());
    scene.put_secret(&data);
    let reads = "certwatcher_read_certificate_total{target=\"hub\"}";
    within(5, "the change is seen", || sidecar.metric(reads) == Some(2.0));
    renews(&sidecar, "hub", 2);
    let new = sidecar.log()[before.len()..].to_owned();
    assert!(new.trim().lines().all(|line| line.contains(" renewed")), "{new}");
}

#[test]
fn a_secret_of_that_name_elsewhere_is_nothing_to_us() {
    let scene = Scene::new("elsewhere");
    let other = scene.managed.new_namespace("elsewhere");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let stranger = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": other},
    });
    let target = shared::resource::SECRETS.object(&other, SECRET);
    scene.managed.create(&target, &stranger);
    scene.managed.delete(&target);
    renews(&sidecar, "hub", 2);
    assert_eq!(sidecar.count("was deleted"), 0);
    assert_eq!(sidecar.count("keeping the current"), 0);
}

#[test]
fn watch_namespace_says_where_the_secret_is() {
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
fn credentials_come_and_go_without_a_new_process() {
    let scene = Scene::new("comeandgo");
    scene.delete_secret();
    let mut sidecar = scene.start(&[]);
    sidecar.wait_for("waiting for Secret");
    for round in 1..=3 {
        scene.put_secret(&scene.new_credentials());
        scene.wait_for_renewals(1);
        scene.delete_secret();
        sidecar.wait_for_times("was deleted", round);
    }
    assert_eq!(sidecar.count("loaded the hub credentials"), 3);
    assert!(sidecar.alive());
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
    sidecar.wait_for("the hub's credentials were rotated");
    scene.hub_relay.set(suite::relay::Way::Closed);
    renews(&sidecar, "hub", 2);
    let gap = rhythm.longest_gap();
    assert!(gap < std::time::Duration::from_secs(3), "{gap:?}");
    assert_eq!(sidecar.count("is not renewed"), 0, "{}", sidecar.log());
}
