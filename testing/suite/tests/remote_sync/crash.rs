//! kill -9 at every single write: whatever was written, the next start reaches the same end.

use suite::{
    eventually,
    kill::{Moment, hold},
    needs::{Need, needs},
    pause,
};

use crate::{
    smoke::crash::{Scene, Work},
    support::EMPTY,
};

/// Kills at the nth write of `verb`; false where the work was done before it came to that.
fn killed_at(work: Work, on_hub: bool, verb: &str, nth: u32, moment: Moment) -> bool {
    let scene = Scene::new(work);
    let side = if on_hub { scene.stage.remote() } else { &scene.stage.own };
    let rule = hold(side.cluster.faults(), Some(&side.user()), verb, nth, moment);
    let mut sidecar = scene.stage.start(&[EMPTY]);
    let held = eventually("it is held or done", || {
        // In this order: the write that is held may be the one that makes it done.
        let done = scene.is_done();
        let held = side.cluster.faults().hits(rule) > 0;
        (held || done).then_some(held)
    });
    let what = format!("{work:?}, {moment:?} {verb} {nth}, on the hub: {on_hub}");
    if held {
        if matches!(moment, Moment::After) {
            // What was sent takes a moment to be done.
            pause(10);
        }
        sidecar.kill();
        side.cluster.faults().clear();
        let _again = scene.stage.start(&[EMPTY]);
        let done = || scene.is_done().then_some(());
        eventually(&format!("the next start does the rest: {what}"), done);
        if matches!(moment, Moment::Late) {
            pause(300);
            eventually("it stays done", done);
        }
        scene.check_end(&what);
    }
    held
}

fn at_every_write(work: Work, least: usize) {
    if !needs(Need::Embedded, "writes can be held") {
        return;
    }
    for moment in [Moment::Before, Moment::After, Moment::Late] {
        let mut killed = 0;
        for (on_hub, verb) in [
            (true, "patch"),
            (true, "update"),
            (false, "create"),
            (false, "update"),
            (false, "patch"),
            (false, "delete"),
        ] {
            let at = |nth: &u32| killed_at(work, on_hub, verb, *nth, moment);
            killed += (1..).take_while(at).count();
        }
        println!("{work:?}, {moment:?}: killed at {killed} writes");
        assert!(killed >= least, "{killed} writes");
    }
}

#[test]
fn a_creation_survives_a_kill_at_every_write() {
    at_every_write(Work::Create, 5);
}

#[test]
fn an_update_survives_a_kill_at_every_write() {
    at_every_write(Work::Update, 5);
}

#[test]
fn a_deletion_survives_a_kill_at_every_write() {
    at_every_write(Work::Delete, 2);
}
