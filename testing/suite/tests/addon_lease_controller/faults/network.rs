//! The way to the hub is away: F1 to F5, F8, F9.

use std::time::Instant;

use dev_apiserver::{Action, State};
use suite::{eventually, relay::Way, within};

use crate::faults::support::{BACK, LOST, failures, faults, requests, rule, running};
use crate::faults::support::{stored_time, wait_for_renewal};

#[test]
fn f1_an_outage_is_one_line_at_its_start_and_one_at_its_end() {
    let (scene, sidecar) = running("refused");
    scene.hub_relay.set(Way::Closed);
    sidecar.wait_for("Connection refused");
    // Full jitter up to the period of 1 s: half of it on average. Waits that double take 2 minutes for as many.
    let (before, start) = (failures(&sidecar), Instant::now());
    within(30, "it goes on trying", || failures(&sidecar) >= before + 9.0);
    let (failed, passed) = (failures(&sidecar) - before, start.elapsed().as_secs_f64());
    assert!(failed < 12.0 * passed.max(3.0), "{failed} tries in {passed} s");
    scene.hub_relay.set(Way::Open);
    // The longest wait is a period.
    within(3, "it is renewed again", || sidecar.count(BACK) == 1);
    wait_for_renewal(&scene);
    assert_eq!((sidecar.warnings(LOST), sidecar.count(BACK)), (1, 1), "{}", sidecar.log());
}

#[test]
fn f2_a_black_hole_ends_in_time() {
    let (scene, sidecar) = running("black-hole");
    scene.put_secret(&scene.credentials_for(&scene.hub, &scene.hub.address));
    sidecar.wait_for("were rotated");
    wait_for_renewal(&scene);
    // The connection that is there falls silent, and new ones get no answer to their SYN.
    faults(&scene).set_state(State::Partition);
    sidecar.wait_for("no answer in time");
    let before = failures(&sidecar);
    within(8, "it goes on trying", || failures(&sidecar) >= before + 3.0);
    assert!(sidecar.descriptors() < 20, "{}", sidecar.descriptors());
    faults(&scene).heal();
    sidecar.wait_for(BACK);
}

#[test]
fn f2_a_black_hole_is_told_once() {
    let (scene, sidecar) = running("told-once");
    scene.put_secret(&scene.credentials_for(&scene.hub, &scene.hub.address));
    sidecar.wait_for("were rotated");
    wait_for_renewal(&scene);
    faults(&scene).set_state(State::Partition);
    sidecar.wait_for_times("no answer in time", 4);
    faults(&scene).heal();
    sidecar.wait_for(BACK);
    assert_eq!(sidecar.warnings(LOST), 1, "{}", sidecar.log());
}

#[test]
fn f3_a_server_that_never_speaks_tls_is_given_up_in_time() {
    let (scene, sidecar) = running("mute");
    scene.hub_relay.set(Way::Silent);
    // New connections are accepted and get no answer to their hello.
    scene.hub_relay.cut();
    sidecar.wait_for("no answer in time");
    let before = failures(&sidecar);
    eventually("it goes on trying", || (failures(&sidecar) >= before + 2.0).then_some(()));
    scene.hub_relay.set(Way::Open);
    sidecar.wait_for(BACK);
    assert_eq!(sidecar.warnings(LOST), 1, "{}", sidecar.log());
}

#[test]
fn f4_garbage_instead_of_tls_is_unreachable() {
    let (scene, sidecar) = running("garbage");
    scene.hub_relay.set(Way::Closed);
    sidecar.wait_for("Connection refused");
    let states =
        [(State::GarbageHandshake, "corrupt message"), (State::Alert, "received fatal alert")];
    for (state, words) in states {
        faults(&scene).set_state(state);
        scene.hub_relay.set(Way::Open);
        sidecar.wait_for(words);
    }
    faults(&scene).heal();
    sidecar.wait_for(BACK);
    // Were it another kind of failure, it would have been told aloud.
    assert_eq!(sidecar.warnings(LOST), 1, "{}", sidecar.log());
}

#[test]
fn f5_an_answer_that_stalls_or_is_late_is_given_up_in_time() {
    let (scene, sidecar) = running("stall");
    for (round, action) in
        [Action::Stall, Action::Delay { milliseconds: 3000 }].into_iter().enumerate()
    {
        faults(&scene).add(rule(&scene, "update", action).times(1));
        // A tick, a time-out of 1 s and a wait of at most 1 s.
        within(4, "it is renewed again", || sidecar.count(BACK) > round);
    }
    assert!(sidecar.count("no answer in time") >= 2, "{}", sidecar.log());
}

#[test]
fn f8_connections_that_the_server_closes_between_ticks_cost_no_tick() {
    let (scene, sidecar) = running("closing");
    faults(&scene).set_state(State::CloseAfterAnswer);
    let handshakes = scene.hub.server().counters().handshakes;
    let before = requests(&scene).len();
    for _ in 0..3 {
        wait_for_renewal(&scene);
    }
    let renewals = (requests(&scene).len() - before) as u64;
    let handshakes = scene.hub.server().counters().handshakes - handshakes;
    assert!(handshakes <= renewals + 2, "{handshakes} handshakes for {renewals} requests");
    assert_eq!((failures(&sidecar), sidecar.count(LOST)), (0.0, 0), "{}", sidecar.log());
}

#[test]
fn f8_connections_that_a_balancer_cuts_cost_no_tick() {
    let (scene, sidecar) = running("cutting");
    for _ in 0..3 {
        scene.hub_relay.cut();
        wait_for_renewal(&scene);
    }
    assert_eq!((failures(&sidecar), sidecar.count(LOST)), (0.0, 0), "{}", sidecar.log());
}

#[test]
fn f9_a_flow_that_a_firewall_forgot_costs_one_timeout() {
    let (scene, sidecar) = running("forgotten");
    let before = stored_time(&scene);
    scene.hub_relay.forget();
    sidecar.wait_for(BACK);
    assert_ne!(stored_time(&scene), before);
    assert_eq!(failures(&sidecar), 1.0, "{}", sidecar.log());
    wait_for_renewal(&scene);
    assert_eq!(failures(&sidecar), 1.0, "{}", sidecar.log());
}
