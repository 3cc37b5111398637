//! Leader election: one of several replicas works, unless election is disabled.

use std::time::Duration;

use suite::{eventually, relay::Way, sidecar::Sidecar, spoke::Spoke, throughout};

use crate::joining::support::{roles, settled, start_without};

/// Upstream's (ocm `pkg/common/options/options.go`).
pub(crate) const LOCK: &str = "registration-agent-lock";
pub(crate) const LEADS: &str = "became the leader";
const MASTER: &str = "leader_election_master_status{name=\"registration-agent-lock\"}";
const FAST: [&str; 3] = [
    "-leader-election-lease-duration=4s",
    "-leader-election-renew-deadline=3s",
    "-leader-election-retry-period=1s",
];

/// A replica as it is by default, but in a hurry.
pub(crate) fn replica(spoke: &Spoke) -> Sidecar {
    start_without(spoke, &["-disable-leader-election"], &FAST)
}

pub(crate) fn holder(spoke: &Spoke) -> Option<String> {
    spoke.managed.leader(&spoke.namespace, LOCK)
}

#[test]
fn second_replica_stands_by_and_takes_over() {
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
fn lost_local_cluster_ends_the_lead_in_time() {
    for way in [Way::Closed, Way::Silent] {
        let spoke = Spoke::auto("elect-cut");
        let patient = ["-leader-election-lease-duration=10s", FAST[1], FAST[2]];
        let mut sidecar = start_without(&spoke, &["-disable-leader-election"], &patient);
        settled(&spoke, &sidecar);
        let (code, time) = sidecar.ending(|_| spoke.managed_relay.set(way));
        assert_eq!(code, Some(1), "{}", sidecar.log());
        // A promise: it ends before others may lead, which is 10 s after the last renewal; its own deadline is 3 s.
        assert!(time < Duration::from_secs(9), "{way:?}: {time:?}");
        let sentence = "error=\"lost leader election: the Lease could not be renewed in time\"";
        assert!(sidecar.log().ends_with(sentence), "{}", sidecar.log());
    }
}

#[test]
fn without_election_there_is_no_lease() {
    let spoke = Spoke::auto("elect-not");
    let mut sidecar = spoke.start(&FAST);
    settled(&spoke, &sidecar);
    assert_eq!(holder(&spoke), None);
    spoke.managed_relay.set(Way::Closed);
    throughout(4000, "it works on", || sidecar.alive() && sidecar.ask("/healthz").0 == 200);
    spoke.managed_relay.set(Way::Open);
    eventually("it is ready", || (sidecar.ask("/readyz").0 == 200).then_some(()));
}
