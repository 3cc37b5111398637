//! The process: leader election, SIGTERM, the endpoint.

use suite::{
    relay::Way,
    sidecar::free_port,
    stays,
    sync::{Stage, WIDGETS},
    throughout,
};

use crate::support::{is_in_sync, one};

/// A hub that is away is no reason to restart the process.
#[test]
fn only_an_outage_of_the_own_cluster_ends_readiness() {
    let (stage, mut sidecar, ..) = one("ready", &WIDGETS, &[]);
    sidecar.wait_for_code("/readyz", 200);
    stage.remote().relay.set(Way::Closed);
    sidecar.wait_for("disconnected remote=hub");
    throughout(3000, "it is ready", || sidecar.ask("/readyz").0 == 200);
    assert!(sidecar.ask("/readyz").1.contains("hub"), "{:?}", sidecar.ask("/readyz"));
    stage.remote().relay.set(Way::Open);
    stage.own.relay.set(Way::Closed);
    sidecar.wait_for_code("/readyz", 503);
    stage.own.relay.set(Way::Open);
    sidecar.wait_for_code("/readyz", 200);
    assert!(sidecar.alive());
    let _ = free_port();
}

#[test]
fn clusters_that_are_away_at_the_start_are_waited_for() {
    for own in [true, false] {
        let (stage, source, target) = Stage::with_widget("away");
        let side = if own { &stage.own } else { stage.remote() };
        side.relay.set(Way::Closed);
        let mut sidecar = stage.start_served(&[]);
        stays("it waits", || sidecar.alive());
        side.relay.set(Way::Open);
        is_in_sync(&source, &target);
    }
}
