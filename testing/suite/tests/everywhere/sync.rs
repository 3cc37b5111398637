//! remote-sync: an object of a hub, and its copy.

use std::process::Command;

use suite::{
    sidecar::Sidecar,
    sync::{self, BUDGETS, Setting},
    within,
};

use crate::stage::{Peer, Stage};

pub(crate) fn stage(name: &str) -> Box<dyn Stage> {
    let stage = sync::Stage::pull(name, Setting::safe(&[&BUDGETS]));
    stage.source(&BUDGETS, "one").create_number(1);
    Box::new(stage)
}

impl Stage for sync::Stage {
    fn peers(&self) -> Vec<Peer<'_>> {
        [&self.own, self.remote()]
            .map(|side| Peer { cluster: &side.cluster, relay: &side.relay, user: side.user() })
            .into()
    }

    fn command(&self, port: u16) -> Command {
        let mut command = self.command(port);
        self.add_remotes(&mut command);
        command
    }

    fn settle(&self, _: &Sidecar) {
        let number = self.source(&BUDGETS, "one").number().expect("a source");
        self.target(&BUDGETS, "one").wait_for_number(number);
        self.settled();
    }

    /// The content comes down and the status goes up.
    fn lives_within(&self, seconds: u64, _: &Sidecar) {
        let (source, target) = self.pair(&BUDGETS, "one");
        let next = source.number().unwrap_or_default() + 1;
        source.set_number(next);
        within(seconds, "the content comes down", || target.number() == Some(next));
        target.set_health(next);
        within(seconds, "the status goes up", || source.healthy() == Some(next));
    }

    /// It connects anew with what the files hold, and waits for the other half.
    fn keeps_old_credentials(&self) -> bool {
        false
    }

    /// Nothing is deleted.
    fn unharmed(&self) {
        for write in self.writes() {
            assert!(!write.words.contains(" delete"), "{}", write.words);
        }
    }
}
