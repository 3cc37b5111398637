//! F25: SIGTERM, exit code 0 within a second.

use dev_apiserver::{Action, State};
use suite::{pause, relay::Way, scene::Scene};

use crate::support::{LOST, failures, rule, running};

#[test]
fn f25_connecting_to_a_black_hole() {
    let scene = Scene::new("connecting");
    scene.put_secret(&scene.credentials_for(&scene.hub, &scene.hub.address));
    scene.hub.faults().set_state(State::Partition);
    // Half of it, and no more than 5 s, is the time to connect.
    let mut sidecar = scene.start(&["-lease-duration", "60"]);
    sidecar.wait_for("loaded the credentials");
    pause(200);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "it is still connecting");
    sidecar.stops_as_asked();
}

#[test]
fn f25_in_a_back_off() {
    let (scene, mut sidecar) = running("back-off");
    let busy = Action::Answer { code: 503, body: None, retry_after: Some("60".into()) };
    scene.hub.faults().add(rule(&scene, "update", busy));
    sidecar.wait_for(LOST);
    sidecar.stops_as_asked();
}

#[test]
fn f25_as_a_leader_that_cannot_give_its_lease_back() {
    let scene = Scene::new("stuck-leader");
    let mut sidecar = scene.start(&["-leader-election"]);
    sidecar.wait_for("became the leader");
    scene.managed_relay.set(Way::Silent);
    sidecar.stops_as_asked();
}
