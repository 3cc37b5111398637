//! Pauses of either object; `decide/tests.rs` has the whole matrix.

use suite::sync::PAUSED;

use crate::support::{has_pairs, is_told, one};

#[test]
fn a_pause_of_either_object_holds_everything() {
    let (stage, sidecar, source, target) = one("pause", &[]);
    for (paused, number) in [(&source, 2), (&target, 3)] {
        paused.annotate(PAUSED, Some("true"));
        has_pairs(&sidecar, "hub", "paused", 1.0);
        stage.settled();
        target.set_health(number);
        source.set_number(number);
        stage.stays_quiet();
        paused.annotate(PAUSED, None);
        source.wait_for_health(number);
        target.wait_for_number(number);
        has_pairs(&sidecar, "hub", "insync", 1.0);
    }

    target.annotate(PAUSED, Some("true"));
    has_pairs(&sidecar, "hub", "paused", 1.0);
    stage.settled();
    source.delete();
    is_told(&source, "SyncHeld", "paused");
    stage.stays_quiet();
    assert!(target.get().is_some() && source.is_terminating());
    target.annotate(PAUSED, None);
    source.wait_until_gone();
    assert!(target.get().is_none());
}
