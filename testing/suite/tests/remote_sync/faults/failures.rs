//! Rejected writes.

use dev_apiserver::Action;
use suite::{
    eventually, stays,
    sync::{WIDGETS, words},
};

use crate::support::{immutable, is_in_sync, is_told_once, of_program, one};

/// A new connection is a reason to try again, and on a busy machine a probe may fail.
const UNDOUBTED: [&str; 2] = ["-timeout", "40s"];

#[test]
fn an_immutable_copy_is_neither_hammered_nor_recreated() {
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

/// What is refused three times waits for two minutes; a source that was mended meanwhile does not.
#[test]
fn a_change_during_a_write_that_is_refused_is_not_forgotten() {
    let (stage, _sidecar, source, target) = one("late-change", &WIDGETS, &[]);
    let own = stage.own.cluster.faults();
    let once = |action| of_program(&stage.own, action).verb("patch").resource("widgets").times(1);
    for number in [2, 3] {
        let rule = own.add(once(immutable()));
        source.set_number(number);
        eventually("it is refused", || own.hits(rule) > 0);
        stage.settled();
    }
    let rule = own.add(once(Action::Delay { milliseconds: 1500 }));
    own.add(once(immutable()));
    source.set_number(4);
    eventually("it is about to be refused", || own.hits(rule) > 0);
    source.set_number(5);
    target.wait_for_number(5);
    is_in_sync(&source, &target);
}
