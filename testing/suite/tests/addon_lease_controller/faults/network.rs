//! Lost connections to the hub: F2, F4, F5, F8, F9.

use dev_apiserver::{Action, State};
use suite::{relay::Way, within};

use crate::support::{
    BACK, LOST, failures, requests, rule, running, stored_time, wait_for_renewal,
};

#[test]
fn f2_a_black_hole_ends_in_time() {
    let (scene, sidecar) = running("black-hole");
    scene.put_secret(&scene.credentials_for(&scene.hub, &scene.hub.address));
    sidecar.wait_for("were rotated");
    wait_for_renewal(&scene);
    // The existing connection falls silent, and new ones get no answer to their SYN.
    scene.hub.faults().set_state(State::Partition);
    sidecar.wait_for("no answer in time");
    let before = failures(&sidecar, "hub");
    within(8, "it goes on trying", || failures(&sidecar, "hub") >= before + 3.0);
    assert!(sidecar.descriptors() < 20, "{}", sidecar.descriptors());
    scene.hub.faults().heal();
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
        scene.hub.faults().set_state(state);
        scene.hub_relay.set(Way::Open);
        sidecar.wait_for(words);
    }
    scene.hub.faults().heal();
    sidecar.wait_for(BACK);
    // Another kind of failure would have been a warning of its own.
    assert_eq!(sidecar.warnings(LOST), 1, "{}", sidecar.log());
}

#[test]
fn f5_an_answer_that_stalls_or_is_late_is_given_up_in_time() {
    let (scene, sidecar) = running("stall");
    for (round, action) in
        [Action::Stall, Action::Delay { milliseconds: 3000 }].into_iter().enumerate()
    {
        scene.hub.faults().add(rule(&scene, "update", action).times(1));
        // A tick, a time-out of 1 s and a wait of at most 1 s.
        within(4, "it is renewed again", || sidecar.count(BACK) > round);
    }
    assert!(sidecar.count("no answer in time") >= 2, "{}", sidecar.log());
}

#[test]
fn f8_connections_that_the_server_closes_between_ticks_cost_no_tick() {
    let (scene, sidecar) = running("closing");
    scene.hub.faults().set_state(State::CloseAfterAnswer);
    let handshakes = scene.hub.server().counters().handshakes;
    let before = requests(&scene).len();
    for _ in 0..3 {
        wait_for_renewal(&scene);
    }
    let renewals = (requests(&scene).len() - before) as u64;
    let handshakes = scene.hub.server().counters().handshakes - handshakes;
    assert!(handshakes <= renewals + 2, "{handshakes} handshakes for {renewals} requests");
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn f9_a_flow_that_a_firewall_forgot_costs_one_timeout() {
    let (scene, sidecar) = running("forgotten");
    let before = stored_time(&scene);
    scene.hub_relay.forget();
    sidecar.wait_for(BACK);
    assert_ne!(stored_time(&scene), before);
    assert_eq!(failures(&sidecar, "hub"), 1.0, "{}", sidecar.log());
    wait_for_renewal(&scene);
    assert_eq!(failures(&sidecar, "hub"), 1.0, "{}", sidecar.log());
}
