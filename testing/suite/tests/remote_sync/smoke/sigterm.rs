//! SIGTERM ends the program within a second.

use dev_apiserver::Action;
use suite::{
    eventually,
    needs::{Need, needs},
    sync::{Setting, Stage, WIDGETS},
};

use crate::support::{of_program, one};

#[test]
fn sigterm_when_all_is_well() {
    let (_stage, mut sidecar, ..) = one("term", &WIDGETS, &[]);
    sidecar.ends_at_once();
}

#[test]
fn sigterm_in_the_middle_of_a_write() {
    if !needs(Need::Embedded, "a write can be held") {
        return;
    }
    for (own, verb) in [(false, "patch"), (true, "create")] {
        let stage = Stage::pull("term-write", Setting::safe(&[&WIDGETS]));
        let side = if own { &stage.own } else { stage.remote() };
        let rule = side.cluster.faults().add(of_program(side, Action::Stall).verb(verb));
        stage.source(&WIDGETS, "one").create_number(1);
        let mut sidecar = stage.start(&[]);
        eventually("the answer stalls", || side.cluster.faults().hits(rule) > 0);
        sidecar.ends_at_once();
    }
}
