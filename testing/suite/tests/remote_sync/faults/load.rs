//! Order: what is urgent comes first.

use suite::{
    eventually,
    sync::{Setting, Stage, WIDGETS, load::nth},
};

/// A new connection begins with a list, and on a busy machine a probe may fail.
const UNDOUBTED: [&str; 2] = ["-timeout", "40s"];

/// An edit at the end of a long start comes next, and the start goes on.
#[test]
fn an_edit_is_served_before_the_backlog_of_a_start() {
    const ALL: usize = 150;
    let stage = Stage::pull("backlog", Setting::safe(&[&WIDGETS]));
    stage.put_sources(0, 0..ALL);
    let sidecar = stage.start(&UNDOUBTED);
    let created = || stage.asked(&stage.own, "create", "widgets");
    eventually("it has begun", || created() > 5);
    stage.change_specs(0, ALL - 1..ALL, 7);
    let target = |index| stage.target(&WIDGETS, &nth(index));
    eventually("the edit is there", || target(ALL - 1).get().is_some());
    let before = created();
    assert!(before < ALL / 2, "{before} others came first\n{}", sidecar.log());
    // One after the other, as each copy takes two writes of 20 a second.
    eventually("the start goes on", || created() > before + 10);
}
