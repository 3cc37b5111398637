//! The heartbeat: it follows acceptance and the Lease. That it brings a lost cluster back is in smoke/outage.rs.

use dev_apiserver::Rule;
use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    ocm::{ACCEPTED, AVAILABLE, JOINED},
    spoke::Spoke,
    throughout,
};

use crate::support::{beats, beats_again, count, renews};

/// The hub makes the Lease when it likes; it is looked for meanwhile, and not made.
#[test]
fn first_heartbeat_follows_a_late_lease() {
    if !needs(Need::Embedded, "the real hub makes the Lease when it likes") {
        return;
    }
    let spoke = Spoke::auto("late");
    let faults = spoke.hub.cluster.faults();
    let away = || faults.add(Rule::new(code(404)).resource("leases").user(&spoke.user()));
    let late = away();
    let agent = spoke.start(&[]);
    eventually("it looks for the Lease twice", || faults.hits(late) > 1);
    faults.remove(late);
    eventually("the first heartbeat", || beats(&agent) >= 1.0);
    // The same with a Lease that is gone.
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    beats_again(&agent, 1);
    let gone = away();
    agent.wait_for("lease renewal failed");
    eventually("it looks for the Lease twice", || faults.hits(gone) > 1);
    faults.remove(gone);
    eventually("it is renewed again", || agent.count("lease renewal recovered") == 1);
    assert_eq!(count(&spoke, "create leases"), 0);
}

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
