//! Pauses of either object; `decide/tests.rs` has the whole matrix.

use suite::sync::PAUSED;

use crate::support::{is_in_sync, one_budget};

#[test]
fn a_pause_of_the_copy_holds_everything() {
    let (stage, _sidecar, source, target) = one_budget("pause-copy");
    target.annotate(PAUSED, Some("true"));
    stage.settled();
    target.set_health(4);
    source.set_number(2);
    stage.stays_quiet();
    source.delete();
    stage.stays_quiet();
    assert!(target.get().is_some() && source.is_terminating());
    target.annotate(PAUSED, None);
    source.wait_until_gone();
    assert!(target.get().is_none());
}

#[test]
fn a_pause_of_the_source_holds_everything() {
    let (stage, _sidecar, source, target) = one_budget("pause-source");
    source.annotate(PAUSED, Some("true"));
    stage.settled();
    target.set_health(4);
    source.set_number(2);
    stage.stays_quiet();
    source.annotate(PAUSED, None);
    source.wait_for_health(4);
    target.wait_for_number(2);
    is_in_sync(&source, &target);
}
