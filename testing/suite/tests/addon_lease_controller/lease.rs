//! Other writers of the Lease.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
};

use serde_json::json;
use suite::{pause, scene::Scene};

use crate::support::{failures, renews};

/// Nor is a Lease that exists before the program.
#[test]
fn conflicts_with_other_writers_are_not_failures() {
    let scene = Scene::new("conflicts");
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "my-addon", "namespace": scene.cluster},
        "spec": {"leaseDurationSeconds": 60},
    });
    let before = scene.hub.create(&scene.hub_lease(), &lease);
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let after = scene.lease().expect("the Lease");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0;
            while !end.load(SeqCst) {
                count += 1;
                let label = json!({"metadata": {"labels": {"count": count.to_string()}}});
                scene.hub.merge(&scene.hub_lease(), &label);
                pause(200);
            }
        });
        renews(&sidecar, "hub", 4);
        end.store(true, SeqCst);
    });
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}
