//! From the first look to the end of the process.

use suite::{eventually, scene::Scene, throughout};

#[test]
fn the_lease_is_created_with_a_renew_time_and_renewed() {
    let scene = Scene::new("lifecycle");
    let mut sidecar = scene.start(&[]);
    let lease = eventually("the Lease is there", || scene.lease());
    assert!(lease["spec"]["renewTime"].is_string(), "{lease}");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 1);
    scene.wait_for_renewals(2);
    sidecar.ends_at_once();
    assert_eq!(sidecar.count("stopped by a signal"), 1);
}

#[test]
fn a_pod_that_is_not_ready_lets_the_lease_age() {
    let scene = Scene::new("ready");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.set_ready(false);
    sidecar.wait_for("the Lease goes stale");
    let before = scene.lease();
    throughout(2500, "the Lease ages", || scene.lease() == before);
    scene.set_ready(true);
    scene.wait_for_renewals(1);
}
