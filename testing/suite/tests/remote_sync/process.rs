//! Leader election.

use apiclient::resource::LEASES;
use serde_json::json;
use suite::{
    eventually,
    sync::{Stage, words},
};

use crate::support::is_in_sync;

fn holder(stage: &Stage) -> Option<String> {
    stage.own.cluster.leader(&stage.own.home, "remote-sync")
}

#[test]
fn one_of_two_replicas_works_and_who_loses_the_lead_stops_writing() {
    let (stage, source, target) = Stage::with_widget("elect");
    let replica = || stage.start_served(&["-leader-election"]);
    let mut first = replica();
    is_in_sync(&source, &target);
    let leader = eventually("there is a leader", || holder(&stage));
    let mut second = replica();
    // A standby is well.
    second.wait_for_code("/readyz", 200);
    let before = stage.settled();
    source.set_number(2);
    target.wait_for_number(2);
    is_in_sync(&source, &target);
    stage.settled();
    let writes = stage.writes();
    let written = words(&writes[before..]);
    assert_eq!(written, ["local patch widgets one", "hub patch widgets one-remote-rs"]);
    assert_eq!(holder(&stage).as_ref(), Some(&leader));

    first.ends_at_once();
    source.set_number(3);
    target.wait_for_number(3);
    is_in_sync(&source, &target);
    assert_ne!(holder(&stage), Some(leader));
    assert!(second.alive());

    let another = json!({"spec": {
        "holderIdentity": "another", "leaseDurationSeconds": 3600,
        "renewTime": apiclient::time::micro_time(std::time::SystemTime::now()),
    }});
    stage.settled();
    stage.own.cluster.merge(&LEASES.object(&stage.own.home, "remote-sync"), &another);
    let before = stage.settled();
    // Its kubelet starts it again, as a standby.
    assert_eq!(second.wait().code(), Some(1), "{}", second.log());
    let mut standby = replica();
    standby.wait_for_code("/readyz", 200);
    source.set_number(4);
    stage.writes_no_more_than(before);
    assert_eq!(target.number(), Some(3));
    assert!(standby.alive());
    assert_eq!(holder(&stage).as_deref(), Some("another"));
}
