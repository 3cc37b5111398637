//! SIGTERM in every state: exit code 0 within a second.

use suite::{eventually, pause, spoke::Spoke};

use crate::support::{asking, beats, joins};

#[test]
fn sigterm_while_the_request_is_pending_keeps_it() {
    let (spoke, mut agent, request) = asking("pending");
    pause(300);
    agent.stops_as_asked();
    let stored = spoke.pending().expect("the request is stored");
    assert_eq!(stored["csr-name"], request.as_bytes(), "for the next start");
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
