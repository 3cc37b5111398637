//! A cluster that the hub accepts, denies and accepts again.

use suite::{
    eventually,
    ocm::{ACCEPTED, AVAILABLE, JOINED},
    spoke::Spoke,
    throughout,
};

use crate::support::{beats, beats_again, renews};

#[test]
fn cluster_speaks_only_while_the_hub_accepts_it() {
    let spoke = Spoke::new("accepted");
    let agent = spoke.start(&[]);
    spoke.hub.approve_next(&spoke.cluster);
    agent.wait_for_code("/readyz", 200);
    throughout(1500, "nobody accepted the cluster, so it says nothing", || {
        [JOINED, AVAILABLE].iter().all(|kind| spoke.hub.condition(&spoke.cluster, kind).is_none())
            && beats(&agent) == 0.0
    });
    spoke.hub.accept(&spoke.cluster);
    let reasons = [ACCEPTED, JOINED, AVAILABLE]
        .map(|kind| spoke.hub.wait_for_condition(&spoke.cluster, kind, "True"));
    assert_eq!(
        reasons,
        ["HubClusterAdminAccepted", "ManagedClusterJoined", "ManagedClusterAvailable"]
    );
    let message = |kind: &str| spoke.hub.condition(&spoke.cluster, kind).expect("the condition").2;
    assert_eq!(message(JOINED), "Managed cluster joined");
    assert_eq!(message(AVAILABLE), "Managed cluster is available");
    eventually("the heartbeat begins", || beats(&agent) >= 1.0);
    eventually("an Event tells it", || spoke.count_events("ManagedClusterLeaseUpdateStarted") == 1);

    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    beats_again(&agent, 2);
    spoke.hub.deny(&spoke.cluster);
    agent.wait_for("goes stale: the hub does not accept the cluster");
    let (metric, lease) = (beats(&agent), spoke.hub.heartbeat(&spoke.cluster));
    throughout(2500, "no heartbeat", || beats(&agent) == metric);
    assert_eq!(spoke.hub.heartbeat(&spoke.cluster), lease);
    assert_eq!(agent.ask("/readyz").0, 200, "the credential is as good as before");
    // Upstream's spelling.
    eventually("an Event tells it", || spoke.count_events("ManagedClusterLeaseUpdateStoped") == 1);
    spoke.hub.accept(&spoke.cluster);
    beats_again(&agent, 2);
    renews(&spoke);
}
