//! The target of the Lease: the hub, the managed cluster, or both.

use std::thread;

use suite::{
    eventually,
    relay::Way,
    scene::{ADDON, Scene},
};

use crate::support::{failures, renews};

/// The log of a failed renewal on a cluster, up to its error.
fn lost(namespace: &str, cluster: &str) -> String {
    let lease = format!("kind=leases.coordination.k8s.io namespace={namespace} name={ADDON}");
    format!("lease renewal failed {lease} server=\"{cluster}\" error=\"")
}

#[test]
fn managed_lease_is_created_once_and_then_updated() {
    let scene = Scene::new("managed-lease");
    scene.hub_relay.set(Way::Closed);
    let sidecar = scene.start_managed(&["-lease-target", "managed"]);
    eventually("the Lease is there", || scene.managed_lease().is_some());
    let uid =
        |lease: Option<serde_json::Value>| lease.map(|lease| lease["metadata"]["uid"].clone());
    let before = uid(scene.managed_lease());
    renews(&sidecar, "managed", 2);
    assert_eq!(uid(scene.managed_lease()), before);
    assert!(scene.lease().is_none());
}

#[test]
fn hub_outage_does_not_hold_up_the_managed_lease() {
    both_ways(|way| {
        let scene = Scene::new("hubaway");
        let sidecar = scene.start(&["-lease-target=both"]);
        renews(&sidecar, "managed", 1);
        renews(&sidecar, "hub", 1);
        scene.hub_relay.set(way);
        sidecar.wait_for(&lost(&scene.cluster, "the hub"));
        renews(&sidecar, "managed", 3);
        assert_eq!(failures(&sidecar, "managed"), 0.0, "{way:?}");
        scene.hub_relay.set(Way::Open);
        renews(&sidecar, "hub", 1);
    });
}

#[test]
fn managed_outage_does_not_hold_up_the_hub_lease() {
    both_ways(|way| {
        let scene = Scene::new("managedaway");
        let sidecar = scene.start(&["-lease-target=both"]);
        renews(&sidecar, "hub", 1);
        renews(&sidecar, "managed", 1);
        scene.managed_relay.set(way);
        sidecar.wait_for(&lost(&scene.namespace, "the local cluster"));
        renews(&sidecar, "hub", 3);
        assert_eq!(failures(&sidecar, "hub"), 0.0, "{way:?}");
        scene.managed_relay.set(Way::Open);
        renews(&sidecar, "managed", 1);
    });
}

/// Refused connections and silent ones, side by side.
fn both_ways(scenario: impl Fn(Way) + Sync) {
    thread::scope(|scope| {
        for way in [Way::Closed, Way::Silent] {
            let scenario = &scenario;
            scope.spawn(move || scenario(way));
        }
    });
}

#[test]
fn missing_secret_does_not_hold_up_the_managed_lease() {
    let scene = Scene::new("bothnosecret");
    scene.delete_secret();
    let sidecar = scene.start(&["-lease-target=both"]);
    renews(&sidecar, "managed", 2);
    let (code, body) = sidecar.ask("/readyz");
    assert_eq!(code, 503);
    assert!(
        body.contains("hub") && body.contains("is not renewed: there are no credentials"),
        "{body}"
    );
}
