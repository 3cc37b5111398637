//! OCM's own agent on the same stage: what holds for it must hold for the program.

use suite::{
    eventually,
    needs::{Need, needs},
    ocm::{self, AVAILABLE, Bootstrap},
    spoke::Spoke,
};

/// Why the others leave these out.
const GO: &str = "the Go agent is there";

/// Waits until the cluster counts as joined and available.
#[track_caller]
fn joins(spoke: &Spoke) {
    let reasons = ["HubAcceptedManagedCluster", "ManagedClusterJoined", AVAILABLE]
        .map(|kind| spoke.hub.wait_for_condition(&spoke.cluster, kind, "True"));
    assert_eq!(
        reasons,
        ["HubClusterAdminAccepted", "ManagedClusterJoined", "ManagedClusterAvailable"]
    );
}

#[test]
fn go_joins_when_a_person_approves_and_accepts() {
    if !needs(Need::Real, GO) {
        return;
    }
    let spoke = Spoke::for_go("go-manual", Bootstrap::Manual);
    let _agent = spoke.start_go_agent(&[]);
    let request = spoke.hub.approve_next(&spoke.cluster);
    let certificate = spoke.wait_for_certificate();
    assert!(certificate.not_after > certificate.not_before);
    let cluster = spoke.hub.managed_cluster(&spoke.cluster).expect("the agent created it");
    assert_eq!(cluster["spec"]["leaseDurationSeconds"], 60);
    assert_eq!(spoke.hub.condition(&spoke.cluster, "HubAcceptedManagedCluster"), None);

    spoke.hub.accept(&spoke.cluster);
    joins(&spoke);
    // Its first heartbeat may come before the Lease, and then the next one a whole period later.
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    eventually("the clock is compared", || {
        spoke.hub.condition(&spoke.cluster, "ManagedClusterConditionClockSynced")
    });
    let names: Vec<_> = spoke.credential().expect("the Secret").into_keys().collect();
    assert_eq!(names, ["agent-name", "cluster-name", "kubeconfig", "tls.crt", "tls.key"]);
    let requests = spoke.hub.csrs_of(&spoke.cluster);
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert_eq!(requests[0]["metadata"]["name"], request.as_str());
}

#[test]
fn go_joins_by_itself_where_the_hub_trusts_it() {
    if !needs(Need::Real, GO) {
        return;
    }
    let spoke = Spoke::for_go("go-auto", Bootstrap::Auto);
    let _agent = spoke.start_go_agent(&[]);
    joins(&spoke);
    let requests = spoke.hub.csrs_of(&spoke.cluster);
    assert_eq!(ocm::reasons(&requests[0]), ["AutoApprovedByHubCSRApprovingController"]);
}

#[test]
fn go_is_lost_without_its_heartbeat_and_comes_back() {
    if !needs(Need::Real, GO) {
        return;
    }
    let spoke = Spoke::for_go("go-heartbeat", Bootstrap::Auto);
    let mut agent = spoke.start_go_agent(&[]);
    joins(&spoke);
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    agent.kill();
    let reason = spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "Unknown");
    assert_eq!(reason, "ManagedClusterLeaseUpdateStopped");

    let _agent = spoke.start_go_agent(&[]);
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    assert_eq!(spoke.hub.csrs_of(&spoke.cluster).len(), 1, "the certificate is still good");
}
