//! Pause: the whole matrix of upstream.

use suite::sync::{BUDGETS, PAUSED, Setting, Stage, WIDGETS, words};

use crate::support::{in_sync, is_in_sync, one_budget};

#[test]
fn gap07_only_the_word_true_pauses() {
    for compat in [true, false] {
        let stage = Stage::pull("gap07", Setting { compat, ..Setting::safe(&[&BUDGETS]) });
        let names = ["upper", "number", "empty"];
        for (name, value) in names.into_iter().zip(["True", "1", ""]) {
            let source = stage.source(&BUDGETS, name);
            source.create_number(1);
            source.annotate(PAUSED, Some(value));
        }
        let _sidecar = stage.start(&[]);
        for name in names {
            is_in_sync(&stage.source(&BUDGETS, name), &stage.target(&BUDGETS, name));
        }
    }
}

#[test]
fn gap08_what_is_paused_and_deleted_waits() {
    for compat in [true, false] {
        let (stage, _sidecar, source, target) = one_budget("gap08", compat);
        source.annotate(PAUSED, Some("true"));
        stage.settled();
        source.delete();
        stage.stays_quiet();
        assert!(source.is_terminating() && target.get().is_some());
        source.annotate(PAUSED, None);
        source.wait_until_gone();
        assert!(target.get().is_none());
    }
}

#[test]
fn a_pause_of_the_copy_holds_everything() {
    for compat in [true, false] {
        let (stage, _sidecar, source, target) = one_budget("pause-copy", compat);
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
}

#[test]
fn a_pause_of_the_source_holds_everything_while_the_source_is_there() {
    for compat in [true, false] {
        let (stage, _sidecar, source, target) = one_budget("pause-source", compat);
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
}

/// The annotation went with the source: only a pause of the copy would have held it.
#[test]
fn a_source_that_is_gone_cannot_hold_its_copy() {
    let (_stage, _sidecar, source, target) = one_budget("pause-gone", true);
    source.annotate(PAUSED, Some("true"));
    source.delete_by_force();
    target.wait_until_gone();
}

#[test]
fn a_pause_of_a_copy_holds_it_when_its_source_is_gone() {
    for compat in [true, false] {
        let (stage, _sidecar, source, target) = one_budget("pause-kept", compat);
        target.annotate(PAUSED, Some("true"));
        stage.settled();
        source.delete_by_force();
        stage.stays_quiet();
        assert!(target.get().is_some());
    }
}

/// A pause of the copy is the copy's: the source's content does not take it away.
#[test]
fn a_pause_of_one_object_is_not_one_of_others() {
    let (stage, _sidecar) = in_sync("pause-one", Setting::safe(&[&BUDGETS, &WIDGETS]), &[]);
    let paused = stage.source(&WIDGETS, "one");
    paused.annotate(PAUSED, Some("true"));
    let before = stage.settled();
    paused.set_number(2);
    let (source, target) = stage.pair(&BUDGETS, "one");
    source.set_number(2);
    target.wait_for_number(2);
    is_in_sync(&source, &target);
    stage.settled();
    let writes = stage.writes();
    assert!(!words(&writes[before..]).iter().any(|words| words.contains("widgets")));
}
