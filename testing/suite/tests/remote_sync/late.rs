//! Answers and events that arrive in another order than things happened.

use dev_apiserver::Action;
use suite::{
    eventually,
    needs::{Need, needs},
    sync::WIDGETS,
};

use crate::support::{immutable, is_in_sync, of_program, one};

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
