//! Situations of the Go sidecar's reconcile loop. Different on purpose: this program watches instead of polling every
//! 10 or 60 s, and uses a new credential without deleting a pod.

use serde_json::json;
use suite::{eventually, identity::Data, relay::Way, scene::Scene};

use crate::support::{DELETED, secret};

#[test]
fn unusable_secret_is_waited_out() {
    let scene = Scene::new("unusablesecret");
    scene.put_secret(&Data::new());
    let (pod, mut sidecar) = (scene.pod_uid(), scene.start(&[]));
    sidecar.wait_for("has no key \"kubeconfig\"");
    let mut broken = scene.new_credentials();
    broken.insert("kubeconfig".into(), b"junk: [".to_vec());
    scene.put_secret(&broken);
    sidecar.wait_for("no valid credentials yet");
    scene.put_secret(&scene.token_secret("worthless"));
    sidecar.wait_for(": 401: Unauthorized");
    scene.ages(1200);
    scene.put_secret(&scene.new_credentials());
    scene.wait_for_renewals(1);
    assert!(sidecar.alive());
    assert_eq!(scene.pod_uid(), pod, "no pod is ever deleted");
}

/// The next try does not wait for the period.
#[test]
fn new_secret_and_late_hub_are_used_at_once_whatever_the_period() {
    let scene = Scene::new("at-once");
    scene.delete_secret();
    scene.hub_relay.set(Way::Closed);
    let sidecar = scene.start(&["-lease-duration=3600"]);
    sidecar.wait_for("waiting for the Secret");
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for("lease renewal failed");
    scene.hub_relay.set(Way::Open);
    eventually("the Lease is there", || scene.lease().is_some());
    sidecar.wait_for("lease renewal recovered");
}

#[test]
fn secret_change_without_new_credentials_changes_nothing() {
    let scene = Scene::new("secretchangewithoutn");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let before = sidecar.log();
    let reads = "certwatcher_read_certificate_total{target=\"hub\"}";
    scene.managed.merge(&secret(&scene), &json!({"metadata": {"labels": {"a": "b"}}}));
    eventually("the change is seen", || sidecar.metric(reads) == Some(2.0));
    // A key that says nothing about the hub.
    scene.managed.merge(&secret(&scene), &json!({"data": {"cluster-name": "Y2x1c3RlcjE="}}));
    eventually("the change is seen", || sidecar.metric(reads) == Some(3.0));
    scene.wait_for_renewals(2);
    let new = sidecar.log()[before.len()..].to_owned();
    assert!(new.trim().lines().all(|line| line.contains(" renewed")), "{new}");
}

#[test]
fn terminating_secret_stops_renewals() {
    let scene = Scene::new("terminatingsecretsto");
    scene.managed.hold(&secret(&scene));
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.delete_secret();
    sidecar.wait_for(DELETED);
    assert!(scene.managed.get(&secret(&scene)).is_some(), "its finalizer holds it");
    scene.ages(1500);
    scene.managed.release(&secret(&scene));
    eventually("it is gone", || scene.managed.get(&secret(&scene)).is_none());
    scene.put_secret(&scene.new_credentials());
    scene.wait_for_renewals(1);
}
