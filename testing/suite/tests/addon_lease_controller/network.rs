//! Servers go away and come back.

use std::time::Duration;

use suite::{pause, relay::Way, scene::Scene, within};

use crate::support::{Rhythm, failures, renewals, renews};

/// The way to the hub is taken away for some periods; the log has one line for it and one for the end.
fn hub_away(way: Way) {
    let scene = Scene::new("away");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let before = renewals(&sidecar, "hub");
    scene.hub_relay.set(way);
    sidecar.wait_for("is not renewed");
    pause(3000);
    let during = renewals(&sidecar, "hub");
    assert!(during <= before + 1.0, "{before} {during}");
    scene.hub_relay.set(Way::Open);
    // A period, and the time-out of the request that is under way.
    within(3, "it is renewed again", || renewals(&sidecar, "hub") > during);
    renews(&sidecar, "hub", 1);
    let loud = |part: &str| sidecar.log().lines().filter(|line| line.contains(part)).count();
    let lost = sidecar
        .log()
        .lines()
        .filter(|l| l.starts_with('W') && l.contains("is not renewed"))
        .count();
    assert_eq!(lost, 1, "{}", sidecar.log());
    assert_eq!(loud("is renewed again after"), 1, "{}", sidecar.log());
}

#[test]
fn a_hub_that_refuses_is_told_once_and_recovers() {
    hub_away(Way::Closed);
}

#[test]
fn a_hub_that_is_silent_is_told_once_and_recovers() {
    hub_away(Way::Silent);
}

#[test]
fn a_connection_that_was_cut_costs_nothing() {
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
    // What is not known to have changed stays.
    renews(&sidecar, "hub", 2);
    scene.managed_relay.set(Way::Open);
    sidecar.wait_for("it is not Ready; the Lease goes stale");
    sidecar.wait_for("the hub's credentials were rotated");
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
fn sigterm_ends_it_at_once_while_the_hub_is_silent() {
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
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    for _ in 0..3 {
        // Longer than the second below which a watch counts as failed.
        suite::pause(1200);
        scene.managed_relay.cut();
    }
    scene.set_ready(false);
    sidecar.wait_for("the Lease goes stale");
    assert_eq!(sidecar.count("keeping its last known state"), 0, "{}", sidecar.log());
}
