//! The process: its stores, its queue and its current attempt.

use explorer::Fate;

use crate::sync::{
    decide::SyncAction,
    deletion_limit::DeletionLimit,
    observed,
    status::{PairState, Reason},
};

use super::{
    Sync,
    view::{Mark, Shown, Source, Target, View},
    world::{AB, NAMES, REMOTES, Remote, Steps, World},
};

/// The state that a restart loses.
#[derive(Clone, Hash)]
pub(super) struct Process {
    pub(super) sources: [[Option<Source>; NAMES]; REMOTES],
    pub(super) targets: [Option<Target>; NAMES],
    /// What each pair's requests returned, until the event arrives.
    pub(super) answers: [[Answers; NAMES]; REMOTES],
    pub(super) deletions: [DeletionLimit; REMOTES],
    pub(super) queued: [[bool; NAMES]; REMOTES],
    /// How the last attempts ended.
    pub(super) ends: [[Option<Option<Reason>>; NAMES]; REMOTES],
    pub(super) attempt: Option<Attempt>,
    /// The connected clusters.
    pub(super) sessions: [Option<Shown>; REMOTES],
}

/// Like `cache::Answers`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Answers {
    pub(super) source: Option<Option<Source>>,
    pub(super) target: Option<Option<Target>>,
}

/// The attempt in progress.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) remote: usize,
    pub(super) name: usize,
    pub(super) progress: observed::Attempt,
    /// Set once the limit has let the deletion pass: what was observed before.
    pub(super) passed: Option<View>,
}

impl Sync {
    /// Events arrive; the process starts or continues with a pair.
    pub(super) fn process_steps(&self, world: &World, steps: &mut Steps) {
        let Some(process) = &world.process else {
            world.step(steps, true, "a process starts", |world| {
                self.start(world);
                Ok(())
            });
            return;
        };
        for (remote, of) in AB.iter().enumerate().take(self.events.remotes) {
            let Remote { shows: uid, away, .. } = world.remotes[remote];
            let shown = Shown { remote, uid };
            let records = self.rule.admit(&world.records, shown).filter(|_| !away);
            if let (None, Some(records)) = (process.sessions[remote], records) {
                world.step(steps, true, format!("{of} is connected"), |world| {
                    world.records = records;
                    self.connect(world, shown);
                    Ok(())
                });
            }
        }
        self.event_steps(world, process, steps);
        self.look_steps(world, process, steps);
        if let Some(attempt) = &process.attempt {
            return self.act(world, attempt.clone(), steps);
        }
        for (remote, name) in pairs() {
            if process.queued[remote][name] && !self.is_parked(world, remote) {
                let progress = observed::Attempt::default();
                let attempt = Attempt { remote, name, progress, passed: None };
                self.act(world, attempt, steps);
            }
        }
        if self.events.crash && world.troubles > 0 {
            world.step(steps, false, "the process is killed", |world| {
                world.process = None;
                Ok(())
            });
        }
    }

    /// Returns whether a remote is not connected.
    pub(super) fn is_parked(&self, world: &World, remote: usize) -> bool {
        world.process.as_ref().is_none_or(|process| process.sessions[remote].is_none())
    }

    fn start(&self, world: &mut World) {
        // Each process has its own limit.
        world.deleted = Default::default();
        world.process = Some(Process {
            sources: Default::default(),
            targets: Default::default(),
            answers: Default::default(),
            deletions: [self.rule.deletions(), self.rule.deletions()],
            queued: Default::default(),
            ends: Default::default(),
            attempt: None,
            sessions: [None; REMOTES],
        });
        (0..NAMES).for_each(|name| self.hear_target(world, name));
    }

    /// Starts a session: everything is listed before any action.
    fn connect(&self, world: &mut World, shown: Shown) {
        let remote = shown.remote;
        world.process.as_mut().unwrap().sessions[remote] = Some(shown);
        for name in 0..NAMES {
            self.hear_source(world, remote, name);
            let process = world.process.as_mut().unwrap();
            let copy = process.targets[name].and_then(|target| target.mark);
            process.queued[remote][name] |= copy.is_some_and(|mark| belongs(mark, shown));
        }
    }

    fn event_steps(&self, world: &World, process: &Process, steps: &mut Steps) {
        for (remote, name) in pairs() {
            let changed = process.sources[remote][name] != world.remotes[remote].sources[name]
                || process.answers[remote][name].source.is_some();
            if changed && process.sessions[remote].is_some() {
                let event = format!("{}/{name}: the source's event arrives", AB[remote]);
                world.step(steps, true, event, |world| {
                    self.hear_source(world, remote, name);
                    Ok(())
                });
            }
        }
        for name in 0..NAMES {
            let answers = process.answers.iter().any(|answers| answers[name].target.is_some());
            if answers || process.targets[name] != world.targets[name] {
                world.step(steps, true, format!("target {name}'s event arrives"), |world| {
                    self.hear_target(world, name);
                    Ok(())
                });
            }
        }
    }

    /// A pair that waits for the end of a namespace is queued again: no event reports that end.
    fn look_steps(&self, world: &World, process: &Process, steps: &mut Steps) {
        let goes = world.namespace.is_some_and(|namespace| namespace.terminating);
        for (remote, name) in pairs() {
            let waits = state(process.ends[remote][name]) == Some(PairState::Waiting);
            if waits && !goes && !process.queued[remote][name] {
                world.step(steps, true, format!("{}/{name}: a look is due", AB[remote]), |world| {
                    world.process.as_mut().unwrap().queued[remote][name] = true;
                    Ok(())
                });
            }
        }
    }

    /// What a pair's requests returned.
    pub(super) fn answers(world: &mut World, (remote, name): (usize, usize)) -> &mut Answers {
        &mut world.process.as_mut().unwrap().answers[remote][name]
    }

    fn hear_source(&self, world: &mut World, remote: usize, name: usize) {
        let listed = world.remotes[remote].sources[name];
        let process = world.process.as_mut().unwrap();
        let answer = process.answers[remote][name].source.take().flatten();
        let gone = process.sources[remote][name].or(answer).is_some() && listed.is_none();
        process.queued[remote][name] |= gone || listed.is_some();
        process.sources[remote][name] = listed;
    }

    /// Like `enqueue_target`.
    fn hear_target(&self, world: &mut World, name: usize) {
        let now = world.targets[name];
        let process = world.process.as_mut().unwrap();
        // Two events report an object that was created and deleted.
        let answers = process.answers.iter_mut().filter_map(|it| it[name].target.take().flatten());
        let answer = answers.last();
        let gone = process.targets[name].or(answer).is_some() && now.is_none();
        process.targets[name] = now;
        let mark = now.and_then(|target| target.mark);
        for remote in 0..self.events.remotes {
            let known = process.sources[remote][name].is_some();
            let session = process.sessions[remote];
            let copy = mark.zip(session).is_some_and(|(mark, session)| belongs(mark, session));
            process.queued[remote][name] |= gone || copy || now.is_some() && known;
        }
    }

    /// The next request of an attempt, or the end of the attempt.
    fn act(&self, world: &World, mut attempt: Attempt, steps: &mut Steps) {
        let (remote, name) = (attempt.remote, attempt.name);
        let view = attempt.passed.clone().unwrap_or_else(|| self.view(world, remote, name));
        self.rule.check_proof(&view, &mut attempt.progress);
        let act = match attempt.passed {
            Some(_) => SyncAction::DeleteTarget,
            None => self.rule.next(&view, &attempt.progress),
        };
        let what = format!("{}/{name}: {act:?}", AB[remote]);
        if let SyncAction::Done(end) = act {
            world.step(steps, true, what, |world| {
                self.finish(world, (remote, name), end);
                Ok(())
            });
            return;
        }
        world.step(steps, true, what.clone(), |world| {
            self.perform(world, attempt.clone(), &view, act, Fate::Answered)
        });
        if !self.events.crash || world.troubles == 0 {
            return;
        }
        for (how, fate) in [
            ("not sent", Fate::NotSent),
            ("its answer is lost", Fate::AnswerLost),
            ("the process is killed before the answer", Fate::Killed),
        ] {
            world.step(steps, false, format!("{what}: {how}"), |world| {
                self.perform(world, attempt.clone(), &view, act, fate)
            });
        }
    }

    pub(super) fn view(&self, world: &World, remote: usize, name: usize) -> View {
        let process = world.process.as_ref().unwrap();
        let answers = process.answers[remote][name];
        View {
            source: answers.source.unwrap_or(process.sources[remote][name]),
            target: answers.target.unwrap_or(process.targets[name]),
            marks_sources: self.events.marks_sources,
            deletes_namespaces: self.events.deletes_namespaces,
            name,
            cluster: process.sessions[remote].unwrap(),
        }
    }

    /// Like the end of an attempt in `reconcile`.
    pub(super) fn finish(
        &self,
        world: &mut World,
        (remote, name): (usize, usize),
        end: Option<Reason>,
    ) {
        let process = world.process.as_mut().unwrap();
        if state(Some(end)) != Some(PairState::Held) {
            self.rule.forget(&mut process.deletions[remote], name);
        }
        process.ends[remote][name] = Some(end);
        if process.attempt.take().is_none() {
            process.queued[remote][name] = false;
        }
    }
}

/// The state of a pair whose last attempt ended with a reason.
pub(super) fn state(end: Option<Option<Reason>>) -> Option<PairState> {
    match end {
        Some(Some(reason)) => Some(reason.condition().state),
        _ => None,
    }
}

/// Returns whether a copy with this mark may belong to the cluster: the uid or the remote matches.
fn belongs(mark: Mark, session: Shown) -> bool {
    mark.cluster.uid == session.uid || mark.cluster.remote == session.remote
}

pub(super) fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..REMOTES).flat_map(|remote| (0..NAMES).map(move |name| (remote, name)))
}
