//! kill -9 at every single write: whatever was written, the next start reaches the same end.

use suite::{
    eventually,
    kill::{Moment, at_every_write, hold, killed},
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
    let held = killed(&mut sidecar, side.cluster.faults(), rule, || scene.is_done());
    if held {
        let what = format!("{work:?}, {moment:?} {verb} {nth}, on the hub: {on_hub}");
        let _again = scene.stage.start(&[EMPTY]);
        let done = || scene.is_done();
        eventually(&format!("the next start does the rest: {what}"), done);
        if matches!(moment, Moment::Late) {
            pause(300);
            eventually("it stays done", done);
        }
        scene.check_end(&what);
    }
    held
}

fn survives(work: Work, least: usize) {
    for moment in [Moment::Before, Moment::After, Moment::Late] {
        let killed = at_every_write(|on_hub, verb, nth| killed_at(work, on_hub, verb, nth, moment));
        println!("{work:?}, {moment:?}: killed at {killed:?} writes, the second on the hub");
        assert!(killed.iter().sum::<usize>() >= least, "{killed:?}");
    }
}

#[test]
fn a_creation_survives_a_kill_at_every_write() {
    survives(Work::Create, 5);
}

#[test]
fn an_update_survives_a_kill_at_every_write() {
    survives(Work::Update, 5);
}

#[test]
fn a_deletion_survives_a_kill_at_every_write() {
    survives(Work::Delete, 2);
}
