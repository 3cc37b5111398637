//! kill -9 at every single write (gap22): whatever was written, the next start reaches the same end.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;
use suite::{
    PATIENCE, Stopwatch, eventually,
    kill::{Moment, hold},
    needs::{Need, needs},
    pause,
    sync::{FINALIZER, HASH, OWNER, Place, Setting, Stage, WIDGETS, words},
};

use crate::{support::is_in_sync, upstream::HASHES};

/// What is under way.
#[derive(Clone, Copy, Debug)]
enum Work {
    Create,
    /// Spec down, status and a Secret up.
    Update,
    Delete,
}

struct Scene {
    stage: Stage,
    source: Place,
    target: Place,
    work: Work,
}

impl Scene {
    fn new(work: Work, compat: bool) -> Self {
        let setting = Setting { compat, ..Setting::safe(&[&WIDGETS]) };
        let stage = Stage::pull("gap22", setting.secrets(&["token"]));
        let (source, target) = stage.pair(&WIDGETS, "one");
        source.create(&json!({"spec": {"size": 1}, "status": {"ready": 9}}));
        stage.source_secret("token").create(&json!({"type": "Opaque"}));
        let scene = Self { stage, source, target, work };
        if !matches!(work, Work::Create) {
            scene.begin();
        }
        scene
    }

    /// In step once, and changed while no program runs.
    fn begin(&self) {
        let mut sidecar = self.stage.start(&[]);
        is_in_sync(&self.source, &self.target);
        self.source.wait("no status", |object| object["status"]["ready"].is_null());
        sidecar.kill();
        match self.work {
            Work::Create => {}
            Work::Update => {
                self.source.set_number(2);
                self.target.set_health(4);
                self.stage.create_target_secret("token", "data1", Some(&self.target));
            }
            Work::Delete => self.source.delete(),
        }
    }

    /// Everything that is to be done is done.
    fn is_done(&self) -> bool {
        let (source, target) = (self.source.get(), self.target.get());
        let (Some(source), Some(target)) = (&source, &target) else {
            return matches!(self.work, Work::Delete) && source.or(target).is_none();
        };
        let annotation = |key: &str| source["metadata"]["annotations"][key].as_str();
        let generations = annotation(suite::sync::REMOTE_GENERATION)
            == Some(&source["metadata"]["generation"].to_string())
            && annotation(suite::sync::LOCAL_GENERATION)
                == Some(&target["metadata"]["generation"].to_string());
        let (number, health) = (WIDGETS.number(target), WIDGETS.healthy(source));
        match self.work {
            Work::Create => generations && (number, health) == (Some(1), None),
            Work::Update => {
                let noted = self.stage.target_secret("token").annotation(HASH);
                let sent = self.stage.source_secret("token").annotation(HASH);
                let hashes = noted.as_deref() == Some(HASHES[0]) && sent == noted;
                generations && hashes && (number, health) == (Some(2), Some(4))
            }
            Work::Delete => false,
        }
    }

    /// What is never to be seen, whenever one looks.
    #[track_caller]
    fn check_end(&self, what: &str) {
        if matches!(self.work, Work::Delete) {
            return;
        }
        assert_eq!(self.source.finalizers(), [FINALIZER], "{what}");
        let owner = self.stage.target_namespace().annotation(OWNER);
        assert_eq!(owner.as_deref(), Some("one"), "{what}");
        if matches!(self.work, Work::Update) {
            let secret = self.stage.source_secret("token").read();
            assert_eq!(secret["data"]["data"], BASE64_STANDARD.encode("data1"), "{what}");
            assert_eq!(
                secret["metadata"]["ownerReferences"][0]["uid"],
                self.source.uid(),
                "{what}"
            );
        }
    }
}

/// Kills at the nth write of `verb`; false where the work was done before it came to that.
fn killed_at(work: Work, compat: bool, on_hub: bool, verb: &str, nth: u32, moment: Moment) -> bool {
    let scene = Scene::new(work, compat);
    let side = if on_hub { scene.stage.remote() } else { &scene.stage.own };
    let rule = hold(side.cluster.faults(), Some(&side.user()), verb, nth, moment);
    let mut sidecar = scene.stage.start(&[]);
    let held = eventually("it is held or done", || {
        // In this order: the write that is held may be the one that makes it done.
        let done = scene.is_done();
        let held = side.cluster.faults().hits(rule) > 0;
        (held || done).then_some(held)
    });
    let what = format!("{work:?}, compat: {compat}, {moment:?} {verb} {nth}, on the hub: {on_hub}");
    if held {
        if matches!(moment, Moment::After) {
            // What was sent takes a moment to be done.
            pause(10);
        }
        sidecar.kill();
        side.cluster.faults().clear();
        let again = scene.stage.start(&[]);
        let watch = Stopwatch::start();
        while !scene.is_done() {
            let log = || format!("{}\n--\n{}", sidecar.log(), again.log());
            let waits = watch.is_within(Duration::from_secs(PATIENCE));
            assert!(waits, "the next start does the rest: {what}\n{}", log());
            pause(20);
        }
        if matches!(moment, Moment::Late) {
            pause(300);
            eventually("it stays done", || scene.is_done().then_some(()));
        }
        scene.check_end(&what);
    }
    held
}

fn at_every_write(work: Work, compat: bool, least: usize) {
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
            let at = |nth: &u32| killed_at(work, compat, on_hub, verb, *nth, moment);
            killed += (1..).take_while(at).count();
        }
        println!("{work:?}, compat: {compat}, {moment:?}: killed at {killed} writes");
        assert!(killed >= least, "{killed} writes");
    }
}

#[test]
fn gap22_a_kill_at_every_write_of_a_creation() {
    at_every_write(Work::Create, false, 5);
}

#[test]
fn gap22_a_kill_at_every_write_of_a_creation_compat() {
    at_every_write(Work::Create, true, 5);
}

#[test]
fn gap22_a_kill_at_every_write_of_an_update() {
    at_every_write(Work::Update, false, 5);
}

#[test]
fn gap22_a_kill_at_every_write_of_an_update_compat() {
    at_every_write(Work::Update, true, 5);
}

#[test]
fn gap22_a_kill_at_every_write_of_a_deletion() {
    at_every_write(Work::Delete, false, 2);
}

#[test]
fn gap22_a_kill_at_every_write_of_a_deletion_compat() {
    at_every_write(Work::Delete, true, 2);
}

/// The same with a clock instead of a fault, on either kind of server: a kill a little later each time.
#[test]
fn gap22_kills_at_any_time_leave_what_one_run_would() {
    for (work, compat) in [
        (Work::Create, false),
        (Work::Update, false),
        (Work::Delete, false),
        (Work::Create, true),
        (Work::Update, true),
        (Work::Delete, true),
    ] {
        let scene = Scene::new(work, compat);
        let mut round = 0;
        while !scene.is_done() && round < 30 {
            let mut sidecar = scene.stage.start(&[]);
            pause(20 + round * 12);
            sidecar.kill();
            round += 1;
        }
        let _last = scene.stage.start(&[]);
        eventually("it is done", || scene.is_done().then_some(()));
        scene.check_end(&format!("{work:?}, compat: {compat}"));
        let writes = scene.stage.writes();
        assert!(writes.len() < 60, "{:?}", words(&writes));
    }
}
