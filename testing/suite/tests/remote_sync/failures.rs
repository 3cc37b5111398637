//! Rejected writes.

use dev_apiserver::Action;
use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    stays,
    sync::{Stage, WIDGETS, words},
};

use crate::{
    events::is_told_once,
    support::{immutable, is_in_sync, of_program, one},
};

/// A new connection is a reason to try again, and on a busy machine a probe may fail.
const UNDOUBTED: [&str; 2] = ["-timeout", "40s"];

#[test]
fn an_immutable_copy_is_neither_hammered_nor_recreated() {
    if !needs(Need::Embedded, "a write can be refused") {
        return;
    }
    let (stage, sidecar, source, target) = one("never", &WIDGETS, &UNDOUBTED);
    let (uid, own) = (target.uid(), stage.own.cluster.faults());
    let rule = own.add(of_program(&stage.own, immutable()).verb("patch").resource("widgets"));
    source.set_number(2);
    eventually("it is refused", || own.hits(rule) > 0);
    stays("it is tried once in half a minute", || own.hits(rule) == 1);
    assert_eq!((target.uid(), target.number()), (uid.clone(), Some(1)));
    sidecar.wait_for("immutable");
    is_told_once(&source, "SyncFailed", "immutable");
    let writes = stage.writes();
    assert!(!words(&writes).iter().any(|it| it.contains("delete")), "{:?}", words(&writes));
    // Another change is another try.
    own.remove(rule);
    source.set_number(3);
    target.wait_for_number(3);
    is_in_sync(&source, &target);
    assert_eq!(target.uid(), uid);
}

/// A server that is busy for a moment is not asked in a hot loop, and all comes right.
#[test]
fn a_busy_server_is_waited_for() {
    if !needs(Need::Embedded, "a write can be refused") {
        return;
    }
    for answer in [
        code(503),
        Action::Answer { code: 429, body: None, retry_after: Some("1".into()) },
        Action::Drop,
        Action::ApplyThenDrop,
        Action::Truncate,
        Action::NotJson,
    ] {
        let (stage, source, target) = Stage::with_widget("busy");
        for side in stage.sides() {
            for verb in ["patch", "create"] {
                side.cluster.faults().add(of_program(side, answer.clone()).verb(verb).times(2));
            }
        }
        let _sidecar = stage.start(&[]);
        is_in_sync(&source, &target);
        stage.settled();
        assert!(stage.writes().len() < 25, "{answer:?}: {:?}", words(&stage.writes()));
        assert_eq!(target.number(), Some(1));
    }
}
