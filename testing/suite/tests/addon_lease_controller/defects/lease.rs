//! The Lease: when and how it is written.

use serde_json::json;
use shared::{
    resource::{LEASES, PODS},
    time::parse_micro_time,
};
use suite::{
    eventually, pause,
    relay::Way,
    scene::{ADDON, Scene, renew_time},
    throughout,
};

use crate::defects::label;

#[test]
fn a06_a_lease_is_born_with_a_renew_time() {
    let scene = Scene::new("a06");
    let _sidecar = scene.start(&["-lease-duration", "3600"]);
    let lease = eventually("the Lease is there", || scene.lease());
    assert!(renew_time(Some(&lease)).is_some());
    if let Some(server) = &scene.hub.embedded {
        let create = server
            .requests()
            .into_iter()
            .find(|request| request.verb == "create" && request.resource == "leases");
        let body = create.expect("a create").json();
        assert!(renew_time(Some(&body)).is_some(), "{body}");
    }
}

#[test]
fn a07_a_deleted_lease_comes_back() {
    let scene = Scene::new("a07");
    let _sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.hub.delete(&scene.hub_lease());
    eventually("the Lease is back", || scene.lease());
    scene.wait_for_renewals(1);
}

#[test]
fn a08_a_changed_duration_reaches_an_existing_lease() {
    let scene = Scene::new("a08");
    let lease = shared::lease::new(&scene.cluster, ADDON, json!({"leaseDurationSeconds": 60}));
    scene.hub.create(&scene.hub_lease(), &lease);
    let _sidecar = scene.start(&["-lease-duration", "2"]);
    eventually("the Lease has the new duration", || {
        (scene.lease()?["spec"]["leaseDurationSeconds"] == 2).then_some(())
    });
}

#[test]
fn a09_a_failed_call_is_tried_again_inside_the_period() {
    let scene = Scene::new("a09");
    let sidecar = scene.start(&["-lease-duration", "5"]);
    scene.wait_for_renewals(1);
    let before = renew_time(scene.lease().as_ref());
    scene.hub_relay.set(Way::Closed);
    sidecar.wait_for("is not renewed");
    scene.hub_relay.set(Way::Open);
    sidecar.wait_for("is renewed again after");
    let times = [before, renew_time(scene.lease().as_ref())];
    let [before, after] =
        times.map(|time| parse_micro_time(&time.expect("a time")).expect("a MicroTime"));
    let gap = after.duration_since(before).expect("it moves forward");
    // One period and the few waits after it, not two periods.
    assert!(gap.as_secs_f64() < 9.5, "{gap:?}");
}

#[test]
fn a10_a_conflict_costs_no_period() {
    let scene = Scene::new("a10");
    let sidecar = scene.start(&["-lease-duration", "2"]);
    scene.wait_for_renewals(1);
    for _ in 0..3 {
        scene.hub.merge(&scene.hub_lease(), &label());
        scene.wait_for_renewals(1);
    }
    assert_eq!(sidecar.count("is not renewed"), 0, "{}", sidecar.log());
    let lease = scene.lease().expect("the Lease");
    assert_eq!(lease["metadata"]["labels"]["somebody"], "else");
}

#[test]
fn a11_a_hung_server_blocks_nothing() {
    let scene = Scene::new("a11");
    let mut sidecar = scene.start(&["-lease-target", "both"]);
    scene.wait_for_renewals(1);
    scene.hub_relay.set(Way::Silent);
    sidecar.wait_for("no answer in time");
    let managed = renew_time(scene.managed_lease().as_ref());
    eventually("the other Lease is renewed", || {
        (renew_time(scene.managed_lease().as_ref()) != managed).then_some(())
    });
    assert_eq!(sidecar.ask("/healthz").0, 200);
    scene.hub_relay.set(Way::Open);
    scene.wait_for_renewals(1);
    scene.hub_relay.set(Way::Silent);
    pause(1200);
    let (code, time) = sidecar.terminate();
    assert_eq!(code, Some(0));
    assert!(time.as_secs_f64() < 1.0, "{time:?}");
}

#[test]
fn a18_renewing_ends_with_leadership() {
    let scene = Scene::new("a18");
    let sidecar = scene.start(&["-leader-election"]);
    sidecar.wait_for("became the leader");
    scene.wait_for_renewals(1);
    let name = format!("{ADDON}-addon-lease.agent.stolostron.io");
    let thief = json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}});
    scene.managed.merge(&LEASES.object(&scene.namespace, &name), &thief);
    sidecar.wait_for("renewals stop");
    sidecar.wait_for("standing by: thief is the leader");
    // A renewal that had begun may still end.
    pause(200);
    let last = scene.lease();
    throughout(2500, "the Lease ages", || scene.lease() == last);
    assert_eq!(sidecar.wait_for_code("/readyz", 200), "ok\n");
}

#[test]
fn a20_only_the_own_pod_is_read_and_one_that_ends_does_not_count() {
    let scene = Scene::new("a20");
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let target = PODS.object(&scene.namespace, suite::scene::POD);
    scene.managed.merge(&target, &hold);
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.delete_pod();
    sidecar.wait_for("it is being deleted; the Lease goes stale");
    if let Some(server) = &scene.managed.embedded {
        let pods = server
            .requests()
            .into_iter()
            .filter(|request| request.resource == "pods" && request.user != "admin");
        assert!(
            pods.into_iter()
                .all(|request| request.query.contains("fieldSelector=metadata.name%3D"))
        );
    }
    scene.managed.merge(&target, &json!({"metadata": {"finalizers": null}}));
}

#[test]
fn a25_a_missing_right_is_named_and_comes_back() {
    let scene = Scene::new("revoked-a25");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let restore = scene.revoke_on_hub("update", "leases");
    sidecar.wait_for("update leases");
    sidecar.wait_for("cannot update resource \"leases\"");
    assert_eq!(sidecar.warnings("is not renewed: update"), 1, "{}", sidecar.log());
    restore();
    scene.wait_for_renewals(1);
}
