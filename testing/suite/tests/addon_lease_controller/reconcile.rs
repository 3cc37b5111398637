//! The situations of the Go sidecar's reconcile loop, row by row as README.md of this crate lists them. Different on
//! purpose: this program watches instead of polling every 10 or 60 s, resumes when a deleted Secret is back (row 4,
//! see `smoke::rotation`), and uses a new credential without deleting a pod (rows 11 to 13). Row 5 takes a right
//! away, see `rights`.

use serde_json::json;
use suite::{
    eventually,
    identity::{Data, certificate},
    pause,
    relay::Way,
    scene::{POD, Scene},
};

use crate::support::{DELETED, NO_POD, renewals, renews, secret};

// Row 1.
#[test]
fn missing_pod_is_waited_for() {
    let scene = Scene::new("missingpod");
    scene.delete_pod();
    let sidecar = scene.start(&[]);
    sidecar.wait_for(NO_POD);
    scene.ages(1200);
    assert!(scene.lease().is_none());
    scene.create_pod(POD);
    scene.set_ready(true);
    scene.wait_for_renewals(1);
}

// Row 2.
#[test]
fn unready_pod_is_waited_for() {
    let scene = Scene::new("unreadypod");
    scene.set_ready(false);
    let sidecar = scene.start(&[]);
    sidecar.wait_for("reason=\"it is not Ready\"");
    scene.ages(1200);
    assert!(scene.lease().is_none());
    scene.set_ready(true);
    eventually("the Lease is there", || scene.lease().is_some());
}

// Row 3.
#[test]
fn missing_secret_is_waited_for() {
    let scene = Scene::new("missingsecret");
    scene.delete_secret();
    let mut sidecar = scene.start(&[]);
    sidecar.wait_for("waiting for the Secret");
    scene.ages(1200);
    assert!(scene.lease().is_none());
    scene.put_secret(&scene.new_credentials());
    scene.wait_for_renewals(1);
    assert_eq!(sidecar.terminate().0, Some(0));
}

// Row 6.
#[test]
fn unusable_secret_is_waited_out() {
    let scene = Scene::new("unusablesecret");
    scene.put_secret(&Data::new());
    let sidecar = scene.start(&[]);
    sidecar.wait_for("has no key \"kubeconfig\"");
    let mut broken = scene.new_credentials();
    broken.insert("kubeconfig".into(), b"junk: [".to_vec());
    scene.put_secret(&broken);
    sidecar.wait_for("no valid credentials yet");
    scene.ages(1200);
    scene.put_secret(&scene.new_credentials());
    eventually("the Lease is there", || scene.lease().is_some());
}

// Row 7.
#[test]
fn hub_away_at_the_start_is_tried_again_within_the_period() {
    let scene = Scene::new("hubawayatthestart");
    scene.hub_relay.set(Way::Closed);
    // The next try does not wait for the period.
    let sidecar = scene.start(&["-lease-duration=3600"]);
    sidecar.wait_for("lease renewal failed");
    scene.hub_relay.set(Way::Open);
    eventually("the Lease is there", || scene.lease().is_some());
    sidecar.wait_for("lease renewal recovered");
}

// Row 8.
#[test]
fn existing_lease_is_taken_over() {
    let scene = Scene::new("existinglease");
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

// Row 9.
#[test]
fn secret_change_without_new_credentials_changes_nothing() {
    let scene = Scene::new("secretchangewithoutn");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let before = sidecar.log();
    let reads = "certwatcher_read_certificate_total{target=\"hub\"}";
    scene.managed.merge(&secret(&scene), &json!({"metadata": {"labels": {"a": "b"}}}));
    eventually("the change is seen", || sidecar.metric(reads) == Some(2.0));
    // A key that says nothing about the hub.
    scene.managed.merge(&secret(&scene), &json!({"data": {"cluster-name": "Y2x1c3RlcjE="}}));
    eventually("the change is seen", || sidecar.metric(reads) == Some(3.0));
    scene.wait_for_renewals(2);
    let new = sidecar.log()[before.len()..].to_owned();
    assert!(new.trim().lines().all(|line| line.contains(" renewed")), "{new}");
}

// Row 10.
#[test]
fn terminating_secret_stops_renewals() {
    let scene = Scene::new("terminatingsecretsto");
    scene.managed.hold(&secret(&scene));
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.delete_secret();
    sidecar.wait_for(DELETED);
    assert!(scene.managed.get(&secret(&scene)).is_some(), "its finalizer holds it");
    scene.ages(1500);
    scene.managed.release(&secret(&scene));
    eventually("it is gone", || scene.managed.get(&secret(&scene)).is_none());
    scene.put_secret(&scene.new_credentials());
    scene.wait_for_renewals(1);
}

// Row 11.
#[test]
fn unusable_new_credentials_leave_the_old_ones_in_use() {
    let scene = Scene::new("unusablenewcredentia");
    let (pod, sidecar) = (scene.pod_uid(), scene.start(&[]));
    scene.wait_for_renewals(1);
    scene.hub_relay.set(Way::Closed);
    sidecar.wait_for("lease renewal failed");
    let mut pair_of_two = scene.new_credentials();
    let (_, key) = certificate(&scene.hub, "another", "nobody");
    pair_of_two.insert("tls.key".into(), key.into_bytes());
    scene.put_secret(&pair_of_two);
    sidecar.wait_for("keeping the current credentials");
    scene.hub_relay.set(Way::Open);
    scene.wait_for_renewals(2);
    assert_eq!(scene.pod_uid(), pod);
}

// Row 12.
#[test]
fn new_credentials_take_over_from_refused_ones() {
    let scene = Scene::new("newcredentialstakeov");
    scene.put_secret(&scene.token_secret("worthless"));
    let (pod, mut sidecar) = (scene.pod_uid(), scene.start(&[]));
    sidecar.wait_for(": 401: Unauthorized");
    scene.put_secret(&scene.new_credentials());
    eventually("the Lease is there", || scene.lease().is_some());
    scene.wait_for_renewals(1);
    assert!(sidecar.alive());
    assert_eq!(scene.pod_uid(), pod, "no pod is ever deleted");
}

// Row 13.
#[test]
fn new_credentials_are_taken_whatever_the_hub_does() {
    let scene = Scene::new("newcredentials");
    let (pod, sidecar) = (scene.pod_uid(), scene.start(&[]));
    scene.wait_for_renewals(1);
    // The old one works.
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for_times("credentials rotated server=\"the hub\"", 1);
    scene.wait_for_renewals(1);
    // Neither works, as the hub cannot be reached.
    scene.hub_relay.set(Way::Closed);
    sidecar.wait_for("lease renewal failed");
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for_times("credentials rotated server=\"the hub\"", 2);
    let before = renewals(&sidecar, "hub");
    scene.hub_relay.set(Way::Open);
    eventually("it is renewed again", || renewals(&sidecar, "hub") > before);
    assert_eq!(scene.pod_uid(), pod, "no pod is ever deleted");
}

// Row 14.
#[test]
fn steady_state_touches_nothing_but_the_lease() {
    let scene = Scene::new("steadystatetouchesno");
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
