//! SIGTERM ends the program with exit code 0 within a second, whatever its servers do.

use dev_apiserver::{Action, Rule};
use suite::{
    needs::{Need, needs},
    pause,
    relay::Way,
    scene::Scene,
};

use crate::support::{LOST, running};

#[test]
fn signal_during_the_startup_delay_ends_it_at_once() {
    let scene = Scene::new("delay");
    for signal in ["TERM", "INT"] {
        let mut sidecar = scene.start(&["-startup-delay=600"]);
        sidecar.wait_for_code("/healthz", 200);
        assert_eq!(sidecar.ask("/readyz").0, 503);
        sidecar.ends_at_once_by(|sidecar| sidecar.signal(signal));
        assert_eq!(sidecar.count("stopped by a signal"), 1);
    }
    assert!(scene.lease().is_none());
}

#[test]
fn sigterm_while_servers_are_silent_ends_it_at_once() {
    let scene = Scene::new("termsilent");
    let mut sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.hub_relay.set(Way::Silent);
    scene.managed_relay.set(Way::Silent);
    pause(1200);
    sidecar.ends_at_once();
}

#[test]
fn sigterm_in_a_back_off_ends_it_at_once() {
    if !needs(Need::Embedded, "it tells the program to wait") {
        return;
    }
    let (scene, mut sidecar) = running("back-off");
    let busy = Action::Answer { code: 503, body: None, retry_after: Some("60".into()) };
    let busy = Rule::new(busy).verb("update").resource("leases").user(&scene.hub_user());
    scene.hub.faults().add(busy);
    sidecar.wait_for(LOST);
    sidecar.stops_as_asked();
}

#[test]
fn sigterm_of_a_leader_that_cannot_let_go_ends_it_at_once() {
    let scene = Scene::new("stuck-leader");
    let mut sidecar = scene.start(&["-leader-election"]);
    sidecar.wait_for("became the leader");
    scene.managed_relay.set(Way::Silent);
    sidecar.stops_as_asked();
}
