//! Servers that go away and come back.

use std::time::{Duration, Instant};

use suite::{
    eventually,
    needs::{Need, needs},
    pause,
    relay::Way,
    scene::Scene,
    within,
};

use crate::support::{BACK, BLIND, LOST, Rhythm, STALE, failures, renews, running};

#[test]
fn kalc04_f8_connections_that_are_cut_cost_nothing() {
    let scene = Scene::new("cut");
    let sidecar = scene.start(&[]);
    renews(&sidecar, "hub", 1);
    let rhythm = Rhythm::of(&scene);
    for _ in 0..3 {
        scene.hub_relay.cut();
        scene.managed_relay.cut();
        renews(&sidecar, "hub", 1);
    }
    let gap = rhythm.longest_gap();
    assert!(gap < Duration::from_millis(2500), "{gap:?}");
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn what_changed_while_the_managed_cluster_was_away_is_noticed() {
    let scene = Scene::new("missed");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.managed_relay.set(Way::Closed);
    scene.set_ready(false);
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for(BLIND);
    // What is not known to have changed stays.
    renews(&sidecar, "hub", 2);
    scene.managed_relay.set(Way::Open);
    sidecar.wait_for("reason=\"it is not Ready\"");
    sidecar.wait_for("credentials rotated server=\"the hub\"");
    scene.ages(1200);
}

#[test]
fn a_managed_cluster_that_is_away_at_start_is_waited_for() {
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
fn kalc11_f25_sigterm_ends_it_at_once_while_its_servers_are_silent() {
    let scene = Scene::new("termsilent");
    let mut sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.hub_relay.set(Way::Silent);
    scene.managed_relay.set(Way::Silent);
    pause(1200);
    sidecar.ends_at_once();
}

#[test]
fn idle_watches_that_are_cut_are_no_news() {
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
        suite::pause(1200);
        scene.managed_relay.cut();
    }
    scene.set_ready(false);
    sidecar.wait_for(STALE);
    assert_eq!(sidecar.count(BLIND), 0, "{}", sidecar.log());
}

#[test]
fn f1_an_outage_is_one_line_at_its_start_and_one_at_its_end() {
    let (scene, sidecar) = running("refused");
    scene.hub_relay.set(Way::Closed);
    sidecar.wait_for("Connection refused");
    // Full jitter up to the period of 1 s: half of it on average. Waits that double take 2 minutes for as many.
    let (before, start) = (failures(&sidecar, "hub"), Instant::now());
    within(30, "it goes on trying", || failures(&sidecar, "hub") >= before + 9.0);
    let (failed, passed) = (failures(&sidecar, "hub") - before, start.elapsed().as_secs_f64());
    assert!(failed < 12.0 * passed.max(3.0), "{failed} tries in {passed} s");
    scene.hub_relay.set(Way::Open);
    // The longest wait is a period.
    within(3, "it is renewed again", || sidecar.count(BACK) == 1);
    renews(&sidecar, "hub", 1);
    assert_eq!((sidecar.warnings(LOST), sidecar.count(BACK)), (1, 1), "{}", sidecar.log());
}

#[test]
fn f3_a_server_that_never_speaks_tls_is_given_up_in_time() {
    let (scene, sidecar) = running("mute");
    scene.hub_relay.set(Way::Silent);
    // New connections are accepted and get no answer to their hello.
    scene.hub_relay.cut();
    sidecar.wait_for("no answer in time");
    let before = failures(&sidecar, "hub");
    eventually("it goes on trying", || (failures(&sidecar, "hub") >= before + 2.0).then_some(()));
    scene.hub_relay.set(Way::Open);
    sidecar.wait_for(BACK);
    assert_eq!(sidecar.warnings(LOST), 1, "{}", sidecar.log());
}
