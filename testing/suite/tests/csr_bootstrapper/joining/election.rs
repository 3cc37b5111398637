//! Leader election: one of several replicas works, unless election is disabled.

use std::time::{Duration, SystemTime};

use serde_json::json;
use shared::{resource::LEASES, time::micro_time};
use suite::{eventually, relay::Way, sidecar::Sidecar, spoke::Spoke, throughout};

use crate::joining::support::{roles, settled, start_without};

/// Upstream's (ocm `pkg/common/options/options.go`).
const LOCK: &str = "registration-agent-lock";
const LEADS: &str = "became the leader";
const MASTER: &str = "leader_election_master_status{name=\"registration-agent-lock\"}";
const FAST: [&str; 3] = [
    "-leader-election-lease-duration=4s",
    "-leader-election-renew-deadline=3s",
    "-leader-election-retry-period=1s",
];

/// A replica as it is by default, but in a hurry.
fn replica(spoke: &Spoke) -> Sidecar {
    start_without(spoke, &["-disable-leader-election"], &FAST)
}

fn holder(spoke: &Spoke) -> Option<String> {
    spoke.managed.leader(&spoke.namespace, LOCK)
}

#[test]
fn a_second_replica_stands_by_and_takes_over_without_another_request() {
    let spoke = Spoke::auto("elect");
    let mut first = replica(&spoke);
    first.wait_for(LEADS);
    let second = replica(&spoke);
    settled(&spoke, &first);
    let leader = holder(&spoke).expect("a holder");
    second.wait_for_code("/readyz", 200);
    assert_eq!(first.metric(MASTER), Some(1.0));
    assert_eq!(second.metric(MASTER), Some(0.0));
    assert_eq!(second.metric("sidecar_csr_posted_total"), Some(0.0));

    first.ends_at_once();
    second.wait_for(LEADS);
    second.wait_for("the hub is used as");
    settled(&spoke, &second);
    assert_ne!(holder(&spoke), Some(leader));
    assert_eq!(roles(&spoke), ["bootstrap"]);
}

#[test]
fn a_second_replica_takes_over_from_one_that_crashed_and_its_request_too() {
    let spoke = Spoke::new("elect-crash");
    let mut first = replica(&spoke);
    let request = spoke.hub.next_csr(&spoke.cluster);
    let second = replica(&spoke);
    first.kill();
    second.wait_for(LEADS);
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    settled(&spoke, &second);
    assert_eq!(roles(&spoke), ["bootstrap"], "one request in all");
}

#[test]
fn the_lead_is_lost_to_another_and_the_process_says_so() {
    let spoke = Spoke::auto("elect-lost");
    let mut sidecar = replica(&spoke);
    settled(&spoke, &sidecar);
    let now = micro_time(SystemTime::now());
    let spec = json!({"holderIdentity": "another", "renewTime": now, "acquireTime": now});
    spoke.managed.merge(&LEASES.object(&spoke.namespace, LOCK), &json!({"spec": spec}));
    assert_eq!(sidecar.wait().code(), Some(1), "{}", sidecar.log());
    assert!(
        sidecar.log().ends_with("error=\"lost leader election: another replica is the leader\""),
        "{}",
        sidecar.log()
    );
    assert_eq!(holder(&spoke).as_deref(), Some("another"), "it is left to the other");
}

#[test]
fn the_lead_is_lost_with_the_own_cluster_in_time_whatever_a_request_does() {
    for way in [Way::Closed, Way::Silent] {
        let spoke = Spoke::auto("elect-cut");
        let mut sidecar = replica(&spoke);
        settled(&spoke, &sidecar);
        let (code, time) = sidecar.ending(|_| spoke.managed_relay.set(way));
        assert_eq!(code, Some(1), "{}", sidecar.log());
        // Others may lead 4 s after the last renewal; its deadline are 3 s.
        assert!(time < Duration::from_secs(4), "{way:?}: {time:?}");
        let sentence = "error=\"lost leader election: the Lease could not be renewed in time\"";
        assert!(sidecar.log().ends_with(sentence), "{}", sidecar.log());
    }
}

#[test]
fn without_election_there_is_no_lease_and_nothing_to_lose() {
    let spoke = Spoke::auto("elect-not");
    let mut sidecar = spoke.start(&FAST);
    settled(&spoke, &sidecar);
    assert_eq!(holder(&spoke), None);
    spoke.managed_relay.set(Way::Closed);
    throughout(4000, "it works on", || sidecar.alive() && sidecar.ask("/healthz").0 == 200);
    spoke.managed_relay.set(Way::Open);
    eventually("it is ready", || (sidecar.ask("/readyz").0 == 200).then_some(()));
}
