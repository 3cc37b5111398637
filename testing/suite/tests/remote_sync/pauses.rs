//! Pauses of either object; `decide/tests.rs` has the whole matrix.

use suite::sync::PAUSED;

use crate::support::{is_told_once, one_budget};

#[test]
fn a_pause_of_either_object_holds_everything() {
    let (stage, _sidecar, source, target) = one_budget("pause");
    source.annotate(PAUSED, Some("true"));
    stage.settled();
    target.set_health(4);
    source.set_number(2);
    stage.stays_quiet();
    target.annotate(PAUSED, Some("true"));
    source.annotate(PAUSED, None);
    stage.stays_quiet();
    target.annotate(PAUSED, None);
    source.wait_for_health(4);
    target.wait_for_number(2);

    source.annotate(PAUSED, Some("true"));
    stage.settled();
    source.delete();
    is_told_once(&source, "SyncHeld", "paused");
    stage.stays_quiet();
    assert!(target.get().is_some() && source.is_terminating());
    source.annotate(PAUSED, None);
    source.wait_until_gone();
    assert!(target.get().is_none());
}
