//! Answers and events that arrive in another order than things happened.

use dev_apiserver::{Action, Rule};
use suite::{
    eventually,
    needs::{Need, needs},
    sync::{Place, REMOTE_GENERATION, Side, Stage, WIDGETS},
};

use crate::support::{immutable, is_in_sync, of_program, one};

/// The next request of this verb is done at once and answered much later.
fn answered_late(side: &Side, verb: &str) -> Rule {
    let late = Action::ApplyThenDelay { milliseconds: 2000 };
    of_program(side, late).verb(verb).resource("widgets").times(1)
}

/// Changes the source, and returns when its generations were written and the program does not know it yet.
fn written_and_unanswered(stage: &Stage, source: &Place) {
    stage.remote().cluster.faults().add(answered_late(stage.remote(), "patch"));
    source.set_number(2);
    source.wait_for_annotation(REMOTE_GENERATION, "2");
}

#[test]
fn an_answer_does_not_bring_back_what_is_gone() {
    if !needs(Need::Embedded, "an answer can be late") {
        return;
    }
    let (stage, _sidecar, source, target) = one("late-gone", &WIDGETS, &[]);
    written_and_unanswered(&stage, &source);
    source.delete_by_force();
    target.wait_until_gone();
}

#[test]
fn an_answer_does_not_undo_a_newer_event() {
    if !needs(Need::Embedded, "an answer can be late") {
        return;
    }
    let (stage, _sidecar, source, target) = one("late-older", &WIDGETS, &[]);
    written_and_unanswered(&stage, &source);
    source.set_number(3);
    target.wait_for_number(3);
    is_in_sync(&source, &target);
}

/// What is refused three times waits for two minutes; a source that was mended meanwhile does not.
#[test]
fn a_change_during_a_write_that_is_refused_is_not_forgotten() {
    if !needs(Need::Embedded, "a write can be refused late") {
        return;
    }
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

/// The generations of one state are written to no other, nor to another object of the name.
#[test]
fn annotations_go_to_what_was_seen_or_nowhere() {
    if !needs(Need::Embedded, "a write can be held") {
        return;
    }
    for again in [false, true] {
        let (stage, _sidecar, source, target) = one("late-write", &WIDGETS, &[]);
        let (hub, before) = (stage.remote().cluster.faults(), stage.settled());
        let held = of_program(stage.remote(), Action::Delay { milliseconds: 3000 });
        let rule = hub.add(held.verb("patch").resource("widgets").times(1));
        source.set_number(2);
        eventually("the generations are on their way", || hub.hits(rule) > 0);
        if again {
            source.delete_by_force();
            source.create_number(3);
        } else {
            source.set_number(3);
        }
        let answered = || {
            let writes = stage.writes().split_off(before);
            writes.iter().find(|one| one.words.starts_with("hub patch")).map(|one| one.code)
        };
        let code = eventually("they are answered", || answered().filter(|code| *code > 0));
        assert!(matches!(code, 409 | 422), "made again: {again}: {code}");
        target.wait_for_number(3);
        is_in_sync(&source, &target);
    }
}
