//! The target of the Lease: the hub, the managed cluster, or both.

use std::{thread, time::Duration};

use shared::resource::LEASES;
use suite::{
    real,
    relay::Way,
    scene::{ADDON, Scene},
    within,
};

use crate::support::{Rhythm, failures, renews};

/// The log of a failed renewal on a cluster, up to its error.
fn lost(namespace: &str, cluster: &str) -> String {
    let lease = format!("kind=leases.coordination.k8s.io namespace={namespace} name={ADDON}");
    format!("lease renewal failed {lease} server=\"{cluster}\" error=\"")
}

#[test]
fn framework_reconcile_first_creates_and_then_updates() {
    let scene = Scene::new("fmanaged");
    scene.hub_relay.set(Way::Closed);
    let sidecar = scene.start_managed(&["-lease-target", "managed"]);
    within(5, "the Lease is there", || scene.managed_lease().is_some());
    let uid =
        |lease: Option<serde_json::Value>| lease.map(|lease| lease["metadata"]["uid"].clone());
    let before = uid(scene.managed_lease());
    renews(&sidecar, "managed", 2);
    assert_eq!(uid(scene.managed_lease()), before);
    assert!(scene.lease().is_none());
}

#[test]
fn with_a_hub_kubeconfig_the_hub_is_meant() {
    let scene = Scene::new("defaulthub");
    let _sidecar = scene.start(&[]);
    scene.wait_for_renewals(2);
    assert!(scene.managed_lease().is_none());
}

#[test]
fn a_hub_that_is_away_does_not_hold_up_the_managed_cluster() {
    both_ways(|way| {
        let scene = Scene::new("hubaway");
        let sidecar = scene.start(&["-lease-target=both"]);
        renews(&sidecar, "managed", 1);
        renews(&sidecar, "hub", 1);
        let rhythm = Rhythm::of_managed(&scene);
        scene.hub_relay.set(way);
        sidecar.wait_for(&lost(&scene.cluster, "the hub"));
        renews(&sidecar, "managed", 3);
        let gap = rhythm.longest_gap();
        assert!(gap < Duration::from_millis(2500), "{gap:?} {way:?}");
        assert_eq!(failures(&sidecar, "managed"), 0.0);
        scene.hub_relay.set(Way::Open);
        renews(&sidecar, "hub", 1);
    });
}

#[test]
fn a_managed_cluster_that_is_away_does_not_hold_up_the_hub() {
    both_ways(|way| {
        let scene = Scene::new("managedaway");
        let sidecar = scene.start(&["-lease-target=both"]);
        renews(&sidecar, "hub", 1);
        renews(&sidecar, "managed", 1);
        let rhythm = Rhythm::of(&scene);
        scene.managed_relay.set(way);
        sidecar.wait_for(&lost(&scene.namespace, "the local cluster"));
        renews(&sidecar, "hub", 3);
        let gap = rhythm.longest_gap();
        assert!(gap < Duration::from_millis(2500), "{gap:?} {way:?}");
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
fn a_secret_that_is_missing_does_not_hold_up_the_managed_cluster() {
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

#[test]
fn the_managed_lease_may_live_in_another_namespace() {
    let scene = Scene::new("othernamespace");
    let other = scene.managed.new_namespace("othernamespace");
    scene.grant_in(&other);
    let sidecar = scene.start_managed(&["-managed-lease-namespace", &other]);
    renews(&sidecar, "managed", 1);
    assert!(scene.managed.get(&LEASES.object(&other, ADDON)).is_some());
    assert!(scene.managed_lease().is_none());
}

#[test]
fn framework_invalid_lease_on_the_managed_cluster_leaves_the_hub_alone() {
    let scene = Scene::new("finvalid");
    // Nobody has rights in a namespace that does not exist: 403 really, 404 embedded.
    let nowhere = format!("revoked-{}", scene.namespace);
    let sidecar =
        scene.start(&["-lease-target", "both", "-managed-lease-namespace", nowhere.as_str()]);
    let lost = lost(&nowhere, "the local cluster");
    sidecar.wait_for(&lost);
    renews(&sidecar, "hub", 2);
    assert_eq!(sidecar.count(&format!("{lost}get leases")) > 0, real());
}
