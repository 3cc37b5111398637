//! Servers that become unreachable and return.

use std::time::Instant;

use suite::{eventually, relay::Way, scene::Scene, within};

use crate::support::{BACK, BLIND, LOST, failures, renews, running};

#[test]
fn hub_outage_is_logged_at_its_start_and_end() {
    let (scene, sidecar) = running("refused");
    scene.hub_relay.set(Way::Closed);
    sidecar.wait_for("Connection refused");
    // Full jitter up to the period of 1 s: half of it on average. Waits that double take 2 minutes for as many.
    let (before, start) = (failures(&sidecar, "hub"), Instant::now());
    within(30, "it goes on trying", || failures(&sidecar, "hub") >= before + 9.0);
    let (failed, passed) = (failures(&sidecar, "hub") - before, start.elapsed().as_secs_f64());
    assert!(failed < 12.0 * passed.max(3.0), "{failed} tries in {passed} s");
    scene.hub_relay.set(Way::Open);
    eventually("it is renewed again", || sidecar.count(BACK) == 1);
    renews(&sidecar, "hub", 1);
    assert_eq!((sidecar.warnings(LOST), sidecar.count(BACK)), (1, 1), "{}", sidecar.log());
}

#[test]
fn changes_made_during_an_outage_are_noticed() {
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
