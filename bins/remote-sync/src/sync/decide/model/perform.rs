//! Requests: what they change, what the process learns, and the invariants that they must keep.

use explorer::Fate;

use crate::sync::{decide::SyncAction, status::Reason};

use super::{
    MOST, Sync,
    process::{Answers, Attempt},
    view::{Mark, Namespace, Published, Source, Target, View},
    world::World,
};

/// How an attempt continues after a request.
enum Next {
    Act,
    End(Option<Reason>),
    /// 409 or 404: both objects are read before the next attempt.
    Stale,
}

type Answer = Result<Next, String>;

const TERMINATING: Option<Reason> = Some(Reason::TargetTerminating);

impl Sync {
    /// Performs an action: `fate` decides whether the request is sent and answered.
    pub(super) fn perform(
        &self,
        world: &mut World,
        mut attempt: Attempt,
        view: &View,
        act: SyncAction,
        fate: Fate,
    ) -> Result<(), String> {
        let (remote, name) = (attempt.remote, attempt.name);
        let process = world.process.as_mut().unwrap();
        if process.attempt.take().is_none() {
            process.queued[remote][name] = false;
        }
        let before = world.process.clone();
        if fate != Fate::NotSent {
            match self.send(world, &mut attempt, view, act)? {
                Next::Act => world.process.as_mut().unwrap().attempt = Some(attempt),
                Next::End(end) => self.finish_sent(world, (remote, name), end),
                Next::Stale => self.refresh(world, remote, name),
            }
        }
        match fate {
            Fate::Answered => {}
            Fate::Killed => world.process = None,
            Fate::NotSent | Fate::AnswerLost => {
                world.process = before;
                world.process.as_mut().unwrap().queued[remote][name] = true;
            }
        }
        Ok(())
    }

    fn finish_sent(&self, world: &mut World, pair: (usize, usize), end: Option<Reason>) {
        let queued = world.process.as_ref().unwrap().queued;
        self.finish(world, pair, end);
        world.process.as_mut().unwrap().queued = queued;
    }

    /// As `PairContext::refresh`.
    fn refresh(&self, world: &mut World, remote: usize, name: usize) {
        let (source, target) = (world.remotes[remote].sources[name], world.targets[name]);
        let view = self.view(world, remote, name);
        let process = world.process.as_mut().unwrap();
        process.answers[remote][name] =
            Answers { source: Some(view.source.and(source)), target: Some(target) };
        process.queued[remote][name] = true;
    }

    fn send(
        &self,
        world: &mut World,
        attempt: &mut Attempt,
        view: &View,
        act: SyncAction,
    ) -> Answer {
        let at @ (remote, name) = (attempt.remote, attempt.name);
        let progress = &mut attempt.progress;
        match act {
            SyncAction::AddFinalizer => {
                let changed = view.source.map(|source| Source { finalizer: true, ..source });
                Ok(world.write_source(at, view.source, changed))
            }
            SyncAction::RecordGenerations => {
                let changed = view.source.zip(view.target).map(|(source, target)| Source {
                    published: Some(Published {
                        remote: source.generation,
                        local: target.generation,
                        uid: Some(target.uid),
                    }),
                    ..source
                });
                Ok(world.write_source(at, view.source, changed))
            }
            SyncAction::Release => self.release(world, attempt, view),
            SyncAction::Update { content, .. } => world.update(at, view, content),
            SyncAction::Create => {
                if world.namespace.is_none() {
                    progress.namespace_created = true;
                    return Ok(world.create_namespace(view));
                }
                Ok(world.create(at, view))
            }
            SyncAction::ConfirmGone if view.source.is_none() => {
                let source = world.remotes[remote].sources[name];
                Self::answers(world, at).source = Some(source);
                progress.gone = source.is_none().then(|| self.rule.subjects(view));
                Ok(Next::Act)
            }
            SyncAction::ConfirmGone => {
                let target = world.targets[name];
                Self::answers(world, at).target = Some(target);
                progress.gone = target.is_none().then(|| self.rule.subjects(view));
                Ok(Next::Act)
            }
            SyncAction::DeleteTarget if attempt.passed.is_none() => {
                // Reads the source's surroundings; anything may happen before the deletion is sent.
                let why = (view.source.is_none(), world.remotes[remote].swept);
                let deletions = &mut world.process.as_mut().unwrap().deletions[remote];
                if let Err(reason) = self.rule.ask(deletions, name, why) {
                    return Ok(Next::End(Some(reason)));
                }
                attempt.passed = Some(view.clone());
                Ok(Next::Act)
            }
            SyncAction::DeleteTarget => {
                attempt.passed = None;
                self.delete_target(world, attempt, view)
            }
            SyncAction::DeleteNamespace => Self::delete_namespace(world, attempt, view),
            SyncAction::Done(end) => Ok(Next::End(end)),
            other => panic!("the model has nothing to {}", other.as_str()),
        }
    }

    /// Removes the finalizer; a terminating source then disappears.
    fn release(&self, world: &mut World, attempt: &Attempt, view: &View) -> Answer {
        let (remote, name) = (attempt.remote, attempt.name);
        let seen = view.source;
        let here = &mut world.remotes[remote].sources[name];
        if *here != seen {
            return Ok(Next::Stale);
        }
        // If the response to a mark was lost, the copy may seem unmarked: as an orphan, it is deleted later.
        let copy = world.targets[name].is_some_and(|target| target.owner == Some(remote));
        // On an unverified cluster, only the source with the mark's uid proves a copy.
        let mark = world.targets[name].and_then(|target| target.mark);
        let proven = mark.is_none_or(|mark| {
            mark.cluster.uid > 0 || seen.is_some_and(|source| source.uid == mark.uid)
        });
        let ends = seen.is_some_and(|source| source.terminating);
        if ends && copy && proven && view.target == world.targets[name] {
            return Err("the finalizer goes before the copy".into());
        }
        let released = seen.map(|source| Source { finalizer: false, published: None, ..source });
        *here = released.filter(|source| !source.terminating);
        Self::answers(world, (remote, name)).source = Some(released);
        Ok(Next::Act)
    }

    fn delete_target(&self, world: &mut World, attempt: &Attempt, view: &View) -> Answer {
        let (remote, name) = (attempt.remote, attempt.name);
        if world.targets[name].is_none() {
            Self::answers(world, (remote, name)).target = Some(None);
            return Ok(Next::Act);
        }
        if world.targets[name] != view.target {
            return Ok(Next::Stale);
        }
        world.check_deletion(remote, name)?;
        world.targets[name] = None;
        Ok(Next::End(TERMINATING))
    }

    fn delete_namespace(world: &mut World, attempt: &mut Attempt, view: &View) -> Answer {
        attempt.progress.namespace_done = true;
        let empty = !world.foreign && world.targets.iter().all(Option::is_none);
        let ours = |it: &Namespace| it.made_for == Some(view.cluster) && view.cluster.uid > 0;
        if let Some(namespace) = world.namespace.as_mut().filter(|it| empty && ours(it)) {
            namespace.terminating = true;
        }
        Ok(Next::Act)
    }
}

impl World {
    fn write_source(
        &mut self,
        (remote, name): (usize, usize),
        seen: Option<Source>,
        changed: Option<Source>,
    ) -> Next {
        let here = &mut self.remotes[remote].sources[name];
        if *here != seen {
            return Next::Stale;
        }
        *here = changed;
        Sync::answers(self, (remote, name)).source = Some(changed);
        Next::Act
    }

    fn write_target(&mut self, at: (usize, usize), target: Target) -> Next {
        self.targets[at.1] = Some(target);
        Sync::answers(self, at).target = Some(Some(target));
        Next::Act
    }

    fn mark(&self, (_, name): (usize, usize), view: &View) -> Option<Mark> {
        let cluster = view.cluster;
        view.source.map(|source| Mark { cluster, uid: source.uid, name })
    }

    fn update(&mut self, at @ (remote, name): (usize, usize), view: &View, all: bool) -> Answer {
        let Some((seen, source)) = view.target.zip(view.source) else { return Ok(Next::Stale) };
        if self.targets[name] != Some(seen) {
            return Ok(Next::Stale);
        }
        match (seen.mark, seen.owner) {
            (None, _) => check_adoption(&source, &seen)?,
            (Some(_), None) => return Err("an object that is nobody's copy is changed".into()),
            (Some(_), Some(owner)) if owner != remote => {
                return Err("another remote's copy is changed".into());
            }
            _ => {}
        }
        let content = if all { source.content } else { seen.content };
        let (mark, owner) = (self.mark(at, view), Some(remote));
        let generation = seen.generation + u8::from(content != seen.content);
        Ok(self.write_target(at, Target { content, generation, mark, owner, ..seen }))
    }

    fn create(&mut self, at @ (remote, name): (usize, usize), view: &View) -> Next {
        if self.namespace.is_none_or(|namespace| namespace.terminating) {
            return Next::End(TERMINATING);
        }
        let Some(source) = view.source.filter(|_| self.targets[name].is_none()) else {
            return Next::Stale;
        };
        let (uid, mark, owner) = (self.uid(), self.mark(at, view), Some(remote));
        let content = source.content;
        self.write_target(at, Target { uid, content, generation: 1, mark, owner })
    }

    fn create_namespace(&mut self, view: &View) -> Next {
        if self.namespace.is_none() {
            let (uid, made_for) = (self.uid(), Some(view.cluster));
            self.namespace = Some(Namespace { uid, made_for, terminating: false });
        }
        Next::Act
    }

    /// Checks that a deletion is proven and within the limit.
    fn check_deletion(&mut self, remote: usize, name: usize) -> Result<(), String> {
        let Some(target) = self.targets[name] else { return Ok(()) };
        match target.owner {
            None => return Err("an object that is nobody's copy is deleted".into()),
            Some(owner) if owner != remote => return Err("another remote's copy is deleted".into()),
            Some(_) => {}
        }
        let source = self.remotes[remote].sources[name];
        // A source with another uid was created after the read.
        let source = source.filter(|source| target.mark.is_none_or(|mark| mark.uid == source.uid));
        if source.is_some_and(|source| !source.terminating) {
            return Err("a copy is deleted while its source lives".into());
        }
        let away = self.swept_away[remote][name];
        let away = away.is_some_and(|uid| target.mark.is_none_or(|mark| mark.uid == uid));
        if source.is_some_and(|source| source.swept) || away {
            return Err("a copy is deleted with the kind of its source".into());
        }
        self.deleted[remote][name] = true;
        match self.deleted[remote].iter().filter(|deleted| **deleted).count() > MOST as usize {
            true => Err("more copies are deleted than the limit".into()),
            false => Ok(()),
        }
    }
}

fn check_adoption(source: &Source, target: &Target) -> Result<(), String> {
    if source.content != target.content {
        return Err("an object is taken that differs".into());
    }
    Ok(())
}
