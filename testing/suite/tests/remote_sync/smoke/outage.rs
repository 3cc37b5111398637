//! An unreachable hub does not restart the program.

use suite::{relay::Way, throughout};

use crate::support::one;

#[test]
fn only_an_outage_of_the_own_cluster_ends_readiness() {
    let (stage, mut sidecar, ..) = one("ready", &[]);
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
}
