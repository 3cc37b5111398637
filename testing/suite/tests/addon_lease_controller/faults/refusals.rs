//! Rejections by the hub: F10 to F13.

use std::time::{Duration, SystemTime};

use dev_apiserver::{Action, Rule};
use serde_json::json;
use suite::{
    Stopwatch, eventually, faults::code, identity::hub_secret, scene::Scene, sidecar::Sidecar,
};

use crate::support::{
    BACK, LOST, STALE, failures, requests, rule, running, sent, start_with_file, wait_for_renewal,
};

/// A sidecar that learns of a changed Secret only by reading it: its watch is silent.
fn deaf(scene: &Scene) -> Sidecar {
    let silent = Rule::new(Action::WatchSilent).verb("watch").resource("secrets");
    scene.managed.faults().add(silent);
    let sidecar = scene.start(&[]);
    sidecar.wait_for("is renewed every");
    sidecar
}

#[test]
fn f10_a_rotated_token_is_used_in_the_same_tick() {
    let scene = Scene::new("token");
    let server = scene.hub.server();
    let old = server.token(&scene.hub_user(), &[]);
    scene.put_secret(&scene.token_secret(&old));
    let sidecar = deaf(&scene);
    scene.put_secret(&scene.token_secret(&server.token(&scene.hub_user(), &[])));
    server.revoke(&old);
    wait_for_renewal(&scene);
    wait_for_renewal(&scene);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
    let unknown = server.requests().iter().filter(|request| request.code == 401).count();
    assert_eq!(unknown, 1);
}

#[test]
fn f10_a_rotated_certificate_is_used_in_the_same_tick() {
    let scene = Scene::new("certificate");
    let server = scene.hub.server();
    let now = SystemTime::now();
    let (start, end) = (now - Duration::from_secs(60), now + Duration::from_secs(4));
    let short = server.ca().client_certificate_between(&scene.hub_user(), &[], start, end);
    let address = scene.hub_relay.address.to_string();
    scene.put_secret(&hub_secret(&address, &scene.hub.ca, &short));
    let sidecar = deaf(&scene);
    scene.put_secret(&scene.new_credentials());
    let refused = || server.requests().iter().filter(|request| request.code == 401).count();
    eventually("the certificate ends", || (refused() > 0).then_some(()));
    wait_for_renewal(&scene);
    assert_eq!(refused(), 1);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn f10_a_rotated_token_file_is_used_in_the_same_tick() {
    let scene = Scene::new("file");
    let server = scene.hub.server();
    let old = server.token(&scene.hub_user(), &[]);
    scene.write("token", &old);
    let kubeconfig =
        scene.write("hub.kubeconfig", &scene.hub_kubeconfig(&json!({"tokenFile": "token"})));
    let sidecar = start_with_file(&scene, &kubeconfig);
    sidecar.wait_for("is renewed every");
    scene.write("token", &server.token(&scene.hub_user(), &[]));
    server.revoke(&old);
    wait_for_renewal(&scene);
    wait_for_renewal(&scene);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
    assert_eq!(server.requests().iter().filter(|request| request.code == 401).count(), 1);
}

#[test]
fn f10_a_401_with_nothing_new_in_the_secret_is_a_failure_like_others() {
    let (scene, sidecar) = running("once");
    scene.hub.faults().add(rule(&scene, "update", code(401)).times(1));
    sidecar.wait_for("is renewed again after 1 failures");
    assert_eq!(sidecar.warnings(LOST), 1);
    assert_eq!(sent(&scene).iter().filter(|line| *line == "update 401").count(), 1);
}

#[test]
fn f11_a_401_that_lasts_is_logged_once_and_makes_it_not_ready() {
    let (scene, sidecar) = running("forever");
    sidecar.wait_for_code("/readyz", 200);
    let refuse = scene.hub.faults().add(rule(&scene, "update", code(401)));
    sidecar.wait_for_code("/readyz", 503);
    assert_eq!(sidecar.ask("/healthz").0, 200);
    assert_eq!(sidecar.warnings(LOST), 1, "{}", sidecar.log());
    let log = sidecar.log();
    assert!(log.contains("update leases") && log.contains(": 401: "), "{log}");
    scene.hub.faults().remove(refuse);
    sidecar.wait_for(BACK);
    sidecar.wait_for_code("/readyz", 200);
}

#[test]
fn f12_a_403_on_the_managed_cluster_changes_nothing_that_is_known() {
    let scene = Scene::new("blind");
    let managed = scene.managed.faults();
    let denied =
        ["list", "watch", "get"].map(|verb| managed.deny(verb, "secrets", &scene.namespace));
    let sidecar = scene.start(&[]);
    sidecar.wait_for("list secrets");
    assert_eq!(sidecar.warnings(": 403: "), 1, "{}", sidecar.log());
    for id in denied {
        managed.remove(id);
    }
    sidecar.wait_for("is renewed every");
    for verb in ["list", "watch"] {
        managed.deny(verb, "secrets", &scene.namespace);
        managed.deny(verb, "pods", &scene.namespace);
    }
    scene.managed.server().restart();
    sidecar.wait_for("watch pods");
    wait_for_renewal(&scene);
    wait_for_renewal(&scene);
    assert_eq!(sidecar.count(STALE), 0, "{}", sidecar.log());
}

#[test]
fn f13_retry_after_is_heeded_for_a_period_and_no_longer() {
    let (scene, sidecar) = running("busy");
    let watch = Stopwatch::start();
    let busy = Action::Answer { code: 429, body: None, retry_after: Some("3600".into()) };
    let busy = scene.hub.faults().add(rule(&scene, "update", busy).times(1));
    eventually("it is told to wait", || (scene.hub.faults().hits(busy) == 1).then_some(()));
    sidecar.wait_for(BACK);
    let all = requests(&scene);
    let refused = all.iter().position(|request| request.code == 429).expect("a 429");
    let wait = all[refused + 1].at - all[refused].at;
    // A load balancer must not make the add-on count as unavailable. At most another period is added.
    let (least, most) = (Duration::from_secs(1), Duration::from_millis(2500));
    assert!(wait >= least && wait.saturating_sub(watch.waited()) < most, "{wait:?}");
}
