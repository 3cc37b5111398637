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

/// Nor the other way round: refused connections and silent ones, side by side.
#[test]
fn hub_outage_does_not_hold_up_the_managed_lease() {
    let holds_up_nothing = |struck: &str, way: Way| {
        let scene = Scene::new("oneaway");
        let sidecar = scene.start(&["-lease-target=both"]);
        renews(&sidecar, "managed", 1);
        renews(&sidecar, "hub", 1);
        let (relay, other, lost) = match struck {
            "hub" => (&scene.hub_relay, "managed", lost(&scene.cluster, "the hub")),
            _ => (&scene.managed_relay, "hub", lost(&scene.namespace, "the local cluster")),
        };
        relay.set(way);
        sidecar.wait_for(&lost);
        renews(&sidecar, other, 3);
        assert_eq!(failures(&sidecar, other), 0.0, "{way:?}");
        relay.set(Way::Open);
        renews(&sidecar, struck, 1);
    };
    thread::scope(|scope| {
        for struck in ["hub", "managed"] {
            for way in [Way::Closed, Way::Silent] {
                scope.spawn(move || holds_up_nothing(struck, way));
            }
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
