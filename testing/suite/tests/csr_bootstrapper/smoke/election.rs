//! One of several replicas works, and the next one after its SIGTERM or crash.

use std::time::SystemTime;

use apiclient::{resource::LEASES, time::micro_time};
use serde_json::json;
use suite::{eventually, sidecar::Sidecar, spoke::Spoke};

use crate::support::{beats, joins, roles, settled};

/// Upstream's (ocm `pkg/common/options/options.go`).
const LOCK: &str = "registration-agent-lock";

/// A replica with short times of its election.
fn replica(spoke: &Spoke) -> Sidecar {
    let flags = [
        "-disable-leader-election=false",
        "-leader-election-lease-duration=4s",
        "-leader-election-renew-deadline=3s",
        "-leader-election-retry-period=1s",
    ];
    spoke.start(&flags)
}

/// The process ends once another replica leads.
#[test]
fn second_replica_takes_over_the_request_of_a_crashed_one() {
    let spoke = Spoke::new("elect-crash");
    let mut first = replica(&spoke);
    let request = spoke.hub.next_csr(&spoke.cluster);
    let mut second = replica(&spoke);
    first.kill();
    second.wait_for("became the leader");
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    settled(&spoke, &second);
    assert_eq!(roles(&spoke), ["bootstrap"], "one request in all");

    let now = micro_time(SystemTime::now());
    let spec = json!({"holderIdentity": "another", "renewTime": now, "acquireTime": now});
    spoke.managed.merge(&LEASES.object(&spoke.namespace, LOCK), &json!({"spec": spec}));
    assert_eq!(second.wait().code(), Some(1), "{}", second.log());
    let sentence = "error=\"lost leader election: another replica is the leader\"";
    assert!(second.log().ends_with(sentence), "{}", second.log());
    let holder = spoke.managed.leader(&spoke.namespace, LOCK);
    assert_eq!(holder.as_deref(), Some("another"), "it is left to the other");
}

const LEADS: &str = "leader_election_master_status{name=\"registration-agent-lock\"}";

#[test]
fn sigterm_of_the_leader_hands_over_the_lead() {
    let spoke = Spoke::auto("standby");
    let elect = ["-disable-leader-election=false"];
    let mut leader = joins(&spoke, &elect);
    assert_eq!(leader.metric(LEADS), Some(1.0));
    let mut standby = spoke.start(&elect);
    standby.wait_for_code("/readyz", 200);
    assert_eq!(standby.metric(LEADS), Some(0.0));
    standby.stops_as_asked();

    // The leader lets go: the next one leads within a moment, where the Lease lasts for 137 s.
    let next = spoke.start(&[&elect[..], &["-leader-election-retry-period", "1s"]].concat());
    next.wait_for_code("/readyz", 200);
    leader.stops_as_asked();
    next.wait_for("became the leader");
    eventually("the next one beats", || beats(&next) >= 1.0);
}
