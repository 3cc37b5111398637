//! A fault that strikes every program next to each of its servers, all at once, and what must hold whatever it
//! is.

use std::{
    process::Command,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::Instant,
};

use dev_apiserver::{Action, Rule};
use suite::{pause, sidecar::Sidecar, within};

use crate::stage::{ALL, Peer, RECOVERY, Stage};

/// Lines of level warning or error that one fault may cost: a watch, a probe or a job says it once.
const WARNINGS: usize = 16;
/// All its lines, and so the tries.
const LINES: usize = 250;

/// A program in its steady state.
pub(crate) struct Subject {
    pub(crate) stage: Box<dyn Stage>,
    pub(crate) process: Sidecar,
    /// Which of its servers is struck.
    place: usize,
}

impl Subject {
    pub(crate) fn peer(&self) -> Peer<'_> {
        self.stage.peers().remove(self.place)
    }

    /// Whether the log holds `part`.
    pub(crate) fn says(&self, part: &str) -> bool {
        self.process.count(part) > 0
    }
}

/// Runs `test` on the stage of each program, all at once.
pub(crate) fn each(name: &str, test: impl Fn(&dyn Stage) + Sync) {
    thread::scope(|scope| {
        for (letter, stage) in ALL {
            let test = &test;
            let thread = thread::Builder::new().name(format!("{name} {letter}"));
            thread.spawn_scoped(scope, move || test(&*stage(name))).expect("a thread");
        }
    });
}

/// Runs `test` for each program and each of its servers, all at once.
pub(crate) fn each_server(name: &str, test: impl Fn(Box<dyn Stage>, usize) + Sync) {
    thread::scope(|scope| {
        for (letter, stage) in ALL {
            for place in 0..2 {
                let (test, name) = (&test, format!("{name}-{}{place}", letter.to_lowercase()));
                let thread = thread::Builder::new().name(name.clone());
                let run = move || {
                    let stage = stage(&name);
                    if place < stage.peers().len() {
                        test(stage, place);
                    }
                };
                thread.spawn_scoped(scope, run).expect("a thread");
            }
        }
    });
}

/// Runs `strike` on every program next to each of its servers. When it returns, the server works again, and soon the
/// program does: it never exited, was healthy all the time, logged little, did nothing that it must not, and SIGTERM
/// ends it.
pub(crate) fn strike(name: &str, strike: impl Fn(&Subject) + Sync) {
    each_server(name, |stage, place| survives(stage, place, &strike));
}

/// The same for one program next to one of its servers.
pub(crate) fn survives(stage: Box<dyn Stage>, place: usize, strike: impl Fn(&Subject)) {
    let process = stage.start();
    stage.settle(&process);
    let mut subject = Subject { stage, process, place };
    let Subject { stage, process, .. } = &subject;
    let (lines, warnings) = (process.count(""), process.warnings(""));
    healthy_throughout(process, || {
        strike(&subject);
        stage.lives(process);
    });
    stage.unharmed();
    let (lines, warnings) = (process.count("") - lines, process.warnings("") - warnings);
    assert!(lines <= LINES, "{lines} lines:\n{}", process.log());
    assert!(warnings <= WARNINGS, "{warnings} warnings in\n{}", process.log());
    ends(&mut subject.process);
}

/// Makes the program list and watch again.
fn asks_for_all(peer: &Peer<'_>) {
    peer.cluster.server().compact();
    peer.relay.cut();
}

/// `action` strikes all that the program asks a server, for a while.
pub(crate) fn answered(subject: &Subject, action: Action) {
    let peer = subject.peer();
    let rule = peer.add(action);
    asks_for_all(&peer);
    within(RECOVERY, "it asks", || peer.faults().hits(rule) > 0);
    let (before, start) = (peer.faults().hits(rule), Instant::now());
    pause(3000);
    let (hits, passed) = (peer.faults().hits(rule) - before, start.elapsed().as_secs_f64());
    peer.faults().remove(rule);
    // Some watches, a list for each, and a renewal: with jitter up to a second each time.
    let most = 20.0 * passed.max(3.0);
    assert!(f64::from(hits) < most, "{hits} times in {passed} s\n{}", subject.process.log());
}

/// The last one is the one whose answer never ends.
pub(crate) const VERBS: [&str; 6] = ["get", "list", "create", "update", "patch", "watch"];

/// The same for one request of each verb.
pub(crate) fn answered_once(subject: &Subject, action: &Action) {
    answered_once_to(&VERBS, subject, action);
}

pub(crate) fn answered_once_to(verbs: &[&str], subject: &Subject, action: &Action) {
    let peer = subject.peer();
    let rule = |verb| Rule::new(action.clone()).user(&peer.user).verb(verb).times(1);
    let rules: Vec<_> = verbs.iter().map(|verb| peer.faults().add(rule(verb))).collect();
    asks_for_all(&peer);
    within(RECOVERY, "it asks", || rules.iter().any(|rule| peer.faults().hits(*rule) > 0));
    pause(1000);
}

/// Every program lives although its process is started in another way.
pub(crate) fn tolerates(name: &str, change: impl Fn(&mut Command) + Sync) {
    each(name, |stage| {
        let mut process = stage.start_as(&change);
        stage.settle(&process);
        healthy_throughout(&process, || stage.lives(&process));
        stage.unharmed();
        ends(&mut process);
    });
}

/// Checks that /healthz says 200 for as long as `work` takes.
pub(crate) fn healthy_throughout(process: &Sidecar, work: impl FnOnce()) {
    /// Also when the work fails.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                let (code, why) = process.ask("/healthz");
                assert_eq!(code, 200, "{why}\n{}", process.log());
                pause(100);
            }
        });
        let _over = Over(&over);
        work();
    });
}

/// SIGTERM ends it at once.
#[track_caller]
pub(crate) fn ends(process: &mut Sidecar) {
    assert!(process.alive(), "{}", process.log());
    process.ends_at_once();
}
