//! The situations of the Go sidecar's reconcile loop, row by row as README.md of this crate lists them. Different on
//! purpose: instead of polling every 10 or 60 s it watches, it resumes when a deleted Secret is back (row 4), and it
//! uses a new credential without deleting a pod (rows 11 to 13).
//!
//! Row 5 takes a right away: `rights::kalc_row_5_…`.

use serde_json::json;
use suite::{
    eventually,
    identity::{Data, certificate},
    pause,
    relay::Way,
    scene::{POD, Scene},
    within,
};

use crate::support::{DELETED, NO_POD, renewals, renews, secret};

#[test]
fn kalc_row_1_a_missing_pod_is_waited_for() {
    let scene = Scene::new("row1");
    scene.delete_pod();
    let sidecar = scene.start(&[]);
    sidecar.wait_for(NO_POD);
    scene.ages(1200);
    assert!(scene.lease().is_none());
    scene.create_pod(POD);
    scene.set_ready(true);
    scene.wait_for_renewals(1);
}

#[test]
fn kalc_row_2_a_pod_that_is_not_ready_is_waited_for() {
    let scene = Scene::new("row2");
    scene.set_ready(false);
    let sidecar = scene.start(&[]);
    sidecar.wait_for("it is not Ready; the Lease goes stale");
    scene.ages(1200);
    assert!(scene.lease().is_none());
    scene.set_ready(true);
    within(2, "the Lease is there at once, not after 10 s", || scene.lease().is_some());
}

#[test]
fn kalc_row_3_no_secret_waits() {
    let scene = Scene::new("row3");
    scene.delete_secret();
    let mut sidecar = scene.start(&[]);
    sidecar.wait_for("waiting for Secret");
    scene.ages(1200);
    assert!(scene.lease().is_none());
    scene.put_secret(&scene.new_credentials());
    scene.wait_for_renewals(1);
    assert_eq!(sidecar.terminate().0, Some(0));
}

#[test]
fn kalc_row_4_a_deleted_secret_stops_and_a_recreated_one_resumes() {
    let scene = Scene::new("row4");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    for round in 1..=2 {
        scene.delete_secret();
        sidecar.wait_for_times(DELETED, round);
        scene.ages(1200);
        scene.put_secret(&scene.new_credentials());
        scene.wait_for_renewals(1);
    }
}

#[test]
fn kalc_row_6_a_secret_that_cannot_be_used_is_waited_out() {
    let scene = Scene::new("row6");
    scene.put_secret(&Data::new());
    let sidecar = scene.start(&[]);
    sidecar.wait_for("has no key \"kubeconfig\"");
    let mut broken = scene.new_credentials();
    broken.insert("kubeconfig".into(), b"junk: [".to_vec());
    scene.put_secret(&broken);
    sidecar.wait_for("no valid hub credentials yet");
    scene.ages(1200);
    scene.put_secret(&scene.new_credentials());
    within(2, "the Lease is there at once", || scene.lease().is_some());
}

#[test]
fn kalc_row_7_a_hub_that_does_not_answer_at_start_is_tried_again() {
    let scene = Scene::new("row7");
    scene.hub_relay.set(Way::Closed);
    let sidecar = scene.start(&[]);
    sidecar.wait_for("is not renewed");
    pause(1500);
    scene.hub_relay.set(Way::Open);
    within(3, "the Lease is there, not after 10 s", || scene.lease().is_some());
    sidecar.wait_for("is renewed again after");
}

#[test]
fn kalc_row_8_a_lease_that_exists_is_taken_over() {
    let scene = Scene::new("row8");
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "my-addon", "namespace": scene.cluster},
        "spec": {"leaseDurationSeconds": 60},
    });
    let before = scene.hub.create(&scene.hub_lease(), &lease);
    let _sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let after = scene.lease().expect("the Lease");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
}

#[test]
fn kalc_row_9_a_secret_that_only_looks_new_changes_nothing() {
    let scene = Scene::new("row9");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let before = sidecar.log();
    let reads = "certwatcher_read_certificate_total{target=\"hub\"}";
    scene.managed.merge(&secret(&scene), &json!({"metadata": {"labels": {"a": "b"}}}));
    within(5, "the change is seen", || sidecar.metric(reads) == Some(2.0));
    // A key that says nothing about the hub.
    scene.managed.merge(&secret(&scene), &json!({"data": {"cluster-name": "Y2x1c3RlcjE="}}));
    within(5, "the change is seen", || sidecar.metric(reads) == Some(3.0));
    scene.wait_for_renewals(2);
    let new = sidecar.log()[before.len()..].to_owned();
    assert!(new.trim().lines().all(|line| line.contains(" renewed")), "{new}");
}

#[test]
fn kalc_row_10_a_secret_that_is_being_deleted_stops() {
    let scene = Scene::new("row10");
    scene.managed.hold(&secret(&scene));
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.delete_secret();
    sidecar.wait_for(DELETED);
    assert!(scene.managed.get(&secret(&scene)).is_some(), "its finalizer holds it");
    scene.ages(1500);
    scene.managed.release(&secret(&scene));
    within(5, "it is gone", || scene.managed.get(&secret(&scene)).is_none());
    scene.put_secret(&scene.new_credentials());
    scene.wait_for_renewals(1);
}

#[test]
fn kalc_row_11_the_old_credential_stays_while_the_new_one_cannot_be_used() {
    let scene = Scene::new("row11");
    let (pod, sidecar) = (scene.pod_uid(), scene.start(&[]));
    scene.wait_for_renewals(1);
    scene.hub_relay.set(Way::Closed);
    sidecar.wait_for("is not renewed");
    let mut pair_of_two = scene.new_credentials();
    let (_, key) = certificate(&scene.hub, "another", "nobody");
    pair_of_two.insert("tls.key".into(), key.into_bytes());
    scene.put_secret(&pair_of_two);
    sidecar.wait_for("keeping the current hub credentials");
    scene.hub_relay.set(Way::Open);
    scene.wait_for_renewals(2);
    assert_eq!(scene.pod_uid(), pod);
}

#[test]
fn kalc_row_12_a_new_credential_takes_over_from_one_that_is_refused() {
    let scene = Scene::new("row12");
    scene.put_secret(&scene.token_secret("worthless"));
    let (pod, mut sidecar) = (scene.pod_uid(), scene.start(&[]));
    sidecar.wait_for(": 401: Unauthorized");
    scene.put_secret(&scene.new_credentials());
    within(3, "the Lease is there", || scene.lease().is_some());
    scene.wait_for_renewals(1);
    assert!(sidecar.alive());
    assert_eq!(scene.pod_uid(), pod, "no pod is ever deleted");
}

#[test]
fn kalc_row_13_a_new_credential_is_taken_whatever_the_hub_does() {
    let scene = Scene::new("row13");
    let (pod, sidecar) = (scene.pod_uid(), scene.start(&[]));
    scene.wait_for_renewals(1);
    // The old one works.
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for_times("the hub's credentials were rotated", 1);
    scene.wait_for_renewals(1);
    // Neither works, as the hub cannot be reached.
    scene.hub_relay.set(Way::Closed);
    sidecar.wait_for("is not renewed");
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for_times("the hub's credentials were rotated", 2);
    let before = renewals(&sidecar, "hub");
    scene.hub_relay.set(Way::Open);
    within(4, "no wait of 60 s", || renewals(&sidecar, "hub") > before);
    assert_eq!(scene.pod_uid(), pod, "no pod is ever deleted");
}

#[test]
fn kalc_row_14_otherwise_nothing_but_the_lease_is_touched() {
    let scene = Scene::new("row14");
    let (pod, sidecar) = (scene.pod_uid(), scene.start(&[]));
    scene.wait_for_renewals(1);
    let managed = scene.managed_relay.address.to_string();
    let requests = |host: &str| -> Vec<String> {
        let metrics = sidecar.ask("/metrics").1;
        let lines = metrics.lines().filter(|line| line.starts_with("rest_client_requests_total"));
        lines.filter(|line| line.contains(host)).map(str::to_owned).collect()
    };
    // Whatever it takes to begin: after that it is quiet there.
    let mut before = requests(&managed);
    eventually("both watches run", || {
        pause(1000);
        let now = requests(&managed);
        std::mem::replace(&mut before, now.clone()) == now
    });
    renews(&sidecar, "hub", 3);
    assert_eq!(requests(&managed), before);
    let has = |lines: &[String], method: &str| lines.iter().any(|line| line.contains(method));
    let hub = requests(&scene.hub_relay.address.to_string());
    assert!(has(&before, "\"GET\"") && has(&hub, "\"PUT\""), "{before:?} {hub:?}");
    for method in ["DELETE", "PATCH"] {
        assert!(!has(&hub, method) && !has(&before, method), "{before:?} {hub:?}");
    }
    assert!(!has(&before, "PUT") && !has(&before, "POST"), "{before:?}");
    assert_eq!(scene.pod_uid(), pod);
}
