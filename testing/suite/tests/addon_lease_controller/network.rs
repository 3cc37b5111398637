//! Connections that are cut, and a managed cluster that starts late.

use suite::{
    needs::{Need, needs},
    pause,
    relay::Way,
    scene::Scene,
};

use crate::support::{BLIND, STALE};

#[test]
fn managed_cluster_away_at_the_start_is_waited_for() {
    let scene = Scene::new("managedlate");
    scene.managed_relay.set(Way::Closed);
    let mut sidecar = scene.start(&[]);
    sidecar.wait_for("list pods");
    assert!(sidecar.alive());
    assert_eq!(sidecar.ask("/healthz").0, 200);
    scene.managed_relay.set(Way::Open);
    scene.wait_for_renewals(1);
}

#[test]
fn cut_idle_watches_are_not_logged() {
    let scene = Scene::new("idle");
    // Before, the list after such a watch waits for a cache that nothing brings forward: three seconds, and 504.
    let is_fresh = scene.managed.minor() >= 31;
    if !needs(Need::Found(is_fresh), "lists come from a fresh cache as of Kubernetes 1.31") {
        return;
    }
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    for _ in 0..3 {
        // Longer than the second below which a watch counts as failed.
        pause(1200);
        scene.managed_relay.cut();
    }
    scene.set_ready(false);
    sidecar.wait_for(STALE);
    assert_eq!(sidecar.count(BLIND), 0, "{}", sidecar.log());
}
