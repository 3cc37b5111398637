//! The Lease reports the pod's readiness: it ages while the pod is not ready.

use suite::{scene::Scene, throughout};

use crate::support::STALE;

#[test]
fn unready_pod_lets_the_lease_age() {
    let scene = Scene::new("ready");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.set_ready(false);
    sidecar.wait_for(STALE);
    let before = scene.lease();
    throughout(2500, "the Lease ages", || scene.lease() == before);
    let body = sidecar.wait_for_code("/readyz", 503);
    assert!(body.contains("the pod: it is not Ready"), "{body}");
    scene.set_ready(true);
    scene.wait_for_renewals(1);
}
