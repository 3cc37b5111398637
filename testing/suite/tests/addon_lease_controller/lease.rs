//! What a renewal costs, and what other writers and another duration change.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
};

use serde_json::json;
use suite::{pause, scene::Scene};

use crate::support::{failures, renews};

/// Nor is a Lease that is there before the program.
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

#[test]
fn renewal_is_one_request_of_few_bytes() {
    let scene = Scene::new("onerequest");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let host = scene.hub_relay.address.to_string();
    // In one read, as the counts move on.
    let counts = || {
        let metrics = sidecar.ask("/metrics").1;
        let sum = |part: &str| -> f64 {
            let lines =
                metrics.lines().filter(|line| line.starts_with("rest_client_requests_total"));
            let lines = lines.filter(|line| line.contains(&host) && line.contains(part));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        };
        (sum(""), sum("method=\"PUT\""))
    };
    // Just after a renewal: the next one is a second away.
    renews(&sidecar, "hub", 1);
    let (all, puts) = counts();
    let before = scene.hub_relay.traffic();
    renews(&sidecar, "hub", 3);
    let (all_now, puts_now) = counts();
    let after = scene.hub_relay.traffic();
    assert!(puts_now - puts >= 3.0);
    assert_eq!(puts_now - puts, all_now - all, "nothing but PUT");
    let moved = after.to_server + after.to_client - before.to_server - before.to_client;
    let bytes = moved as f64 / (puts_now - puts);
    println!("{bytes:.0} bytes a renewal");
    assert!(bytes <= 1700.0, "{bytes:.0} bytes a renewal, TLS included");
}
