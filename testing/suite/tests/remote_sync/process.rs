//! The process: leader election, the endpoint.

use apiclient::resource::LEASES;
use suite::{
    eventually,
    needs::{Need, needs},
    sidecar::Sidecar,
    stays,
    sync::{Stage, WIDGETS, words},
};

use crate::support::{is_in_sync, one};

// --- election ---

const ELECT: [&str; 1] = ["-leader-election"];

fn replica(stage: &Stage) -> Sidecar {
    stage.start_served(&ELECT)
}

fn holder(stage: &Stage) -> Option<String> {
    stage.own.cluster.leader(&stage.own.home, "remote-sync")
}

#[test]
fn one_of_two_replicas_works_and_the_other_takes_over() {
    let (stage, source, target) = Stage::with_widget("elect");
    let mut first = replica(&stage);
    is_in_sync(&source, &target);
    let leader = eventually("there is a leader", || holder(&stage));
    let mut second = replica(&stage);
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

    // Who loses the lead stops writing; its kubelet starts it again, as a standby.
    stage.settled();
    let another = serde_json::json!({"spec": {
        "holderIdentity": "another", "leaseDurationSeconds": 3600,
        "renewTime": apiclient::time::micro_time(std::time::SystemTime::now()),
    }});
    stage.own.cluster.merge(&LEASES.object(&stage.own.home, "remote-sync"), &another);
    let before = stage.settled();
    assert_eq!(second.wait().code(), Some(1), "{}", second.log());
    let standby = replica(&stage);
    standby.wait_for_code("/readyz", 200);
    source.set_number(4);
    stage.writes_no_more_than(before);
    assert_eq!(target.number(), Some(3));
    assert_eq!(holder(&stage).as_deref(), Some("another"));
}

// --- the endpoint ---

/// Events that change nothing cost no request.
#[test]
fn idle_it_asks_for_nothing() {
    if !needs(Need::Embedded, "the log has all requests") {
        return;
    }
    let (stage, _sidecar, _, target) = one("idle", &WIDGETS, &["-probe-interval", "60s"]);
    stage.settled();
    let count = || -> usize {
        let all = stage.sides().map(|side| {
            let user = side.user();
            side.cluster.server().requests().iter().filter(|it| it.user == user).count()
        });
        all.sum()
    };
    let before = count();
    target.annotate("mine", Some("1"));
    target.annotate("mine", Some("2"));
    stays("it is not looked at", || count() == before);
}
