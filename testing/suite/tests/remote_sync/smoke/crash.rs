//! kill -9 at any time: whatever was written, the next start reaches the same end.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;
use suite::{
    eventually, pause,
    sync::{FINALIZER, HASH, Place, SOURCE, Setting, Stage, WIDGETS, words},
};

use crate::support::{EMPTY, HASHES, is_in_sync, published};

/// What is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Create,
    /// Spec down, status and a Secret up.
    Update,
    Delete,
}

pub(crate) struct Scene {
    pub(crate) stage: Stage,
    source: Place,
    target: Place,
    work: Work,
}

impl Scene {
    pub(crate) fn new(work: Work) -> Self {
        let stage = Stage::pull("kills", Setting::safe(&[&WIDGETS]).secrets(&["token"]));
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
        let mut sidecar = self.stage.start(&[EMPTY]);
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
    pub(crate) fn is_done(&self) -> bool {
        let (source, target) = (self.source.get(), self.target.get());
        let (Some(source), Some(target)) = (&source, &target) else {
            return matches!(self.work, Work::Delete) && source.or(target).is_none();
        };
        let generations = published(source, target);
        let (number, health) = (WIDGETS.number(target), WIDGETS.healthy(source));
        match self.work {
            Work::Create => generations && (number, health) == (Some(1), None),
            Work::Update => {
                let sent = self.stage.source_secret("token").annotation(HASH);
                let uploaded = sent.as_deref() == Some(HASHES[0]);
                generations && uploaded && (number, health) == (Some(2), Some(4))
            }
            Work::Delete => false,
        }
    }

    /// What is never to be seen, whenever one looks.
    #[track_caller]
    pub(crate) fn check_end(&self, what: &str) {
        if matches!(self.work, Work::Delete) {
            // It was created for the copy and is deleted with it; nothing else is.
            self.stage.target_namespace().wait_until_gone();
            assert!(self.stage.source_secret("token").get().is_some(), "{what}");
            return;
        }
        assert_eq!(self.source.finalizers(), [FINALIZER], "{what}");
        let mark = self.stage.target_namespace().annotation(SOURCE).unwrap_or_default();
        assert!(mark.contains(&format!("/{}/", self.source.name)), "{what}: {mark}");
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

/// The same with a clock instead of a fault, on either kind of server: a kill a little later each time.
#[test]
fn kills_at_any_time_leave_what_one_run_would() {
    for work in [Work::Create, Work::Update, Work::Delete] {
        let scene = Scene::new(work);
        let mut round = 0;
        while !scene.is_done() && round < 30 {
            let mut sidecar = scene.stage.start(&[EMPTY]);
            pause(20 + round * 12);
            sidecar.kill();
            round += 1;
        }
        let _last = scene.stage.start(&[EMPTY]);
        eventually("it is done", || scene.is_done());
        scene.check_end(&format!("{work:?}"));
        let writes = scene.stage.writes();
        assert!(writes.len() < 60, "{:?}", words(&writes));
    }
}
