//! Two remotes and the target's cluster, and what people and servers do there.

use std::borrow::Cow;

use explorer::Step;

use super::{
    process::Process,
    view::{Mark, Namespace, Published, Records, Shown, Source, Target},
};

pub(super) const NAMES: usize = 2;
pub(super) const REMOTES: usize = 2;

pub(super) type Steps = Vec<Step<World, Cow<'static, str>>>;

/// The state of all clusters and of the process.
#[derive(Clone, Hash)]
pub(super) struct World {
    pub(super) remotes: [Remote; REMOTES],
    pub(super) targets: [Option<Target>; NAMES],
    pub(super) namespace: Option<Namespace>,
    /// Somebody else's object is in the namespace.
    pub(super) foreign: bool,
    /// For the invariants only: the namespace may have held objects of others, or a source that nothing held
    /// disappeared, which may go unnoticed.
    pub(super) used: bool,
    pub(super) process: Option<Process>,
    /// The recorded identities of the remotes.
    pub(super) records: Records,
    /// The targets that the process deleted for each remote, by name.
    pub(super) deleted: [[bool; NAMES]; REMOTES],
    /// For the invariants only: uids of sources that were deleted with their kind and had no finalizer.
    pub(super) swept_away: [[Option<u8>; NAMES]; REMOTES],
    pub(super) uids: u8,
    pub(super) troubles: u8,
}

/// A cluster of sources.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Remote {
    /// The uid of kube-system; 0 if it cannot be read.
    pub(super) shows: u8,
    /// The cluster is unreachable.
    pub(super) away: bool,
    pub(super) sources: [Option<Source>; NAMES],
    /// Its kind, or its namespace, is being deleted.
    pub(super) swept: bool,
}

/// What may happen besides failed requests.
#[derive(Clone, Copy)]
pub(super) struct Events {
    /// The names that are in use.
    pub(super) names: usize,
    pub(super) remotes: usize,
    /// Sources are created, edited and deleted.
    pub(super) people: bool,
    /// Sources vanish without a visible deletion.
    pub(super) vanish: bool,
    /// The kind or the namespace of the sources is deleted.
    pub(super) sweep: bool,
    /// Sources with forged finalizers, generations and uids are created.
    pub(super) forge: bool,
    /// Others have objects with the targets' names and in their namespace.
    pub(super) foreign: bool,
    /// A list lacks an existing source.
    pub(super) stale: bool,
    /// The process is killed, and requests fail.
    pub(super) crash: bool,
    /// Remotes become unreachable, show another's uid, or hide theirs.
    pub(super) identities: bool,
    /// Bookkeeping on the source (`-track`).
    pub(super) marks_sources: bool,
    pub(super) deletes_namespaces: bool,
}

impl World {
    /// A world whose remotes show these uids.
    pub(super) fn new(shows: [u8; REMOTES], troubles: u8) -> Self {
        let remote = |shows| Remote { shows, away: false, sources: [None; NAMES], swept: false };
        Self {
            remotes: shows.map(remote),
            targets: [None; NAMES],
            namespace: None,
            foreign: false,
            used: false,
            process: None,
            records: Records::default(),
            deleted: Default::default(),
            swept_away: Default::default(),
            uids: 0,
            troubles,
        }
    }

    /// Adds a source and its copy.
    pub(super) fn with_copy(mut self, remote: usize, name: usize) -> Self {
        let (source_uid, uid) = (self.uid(), self.uid());
        let cluster = Shown { remote, uid: self.remotes[remote].shows };
        self.records[remote] = Some(cluster.uid);
        let published = Some(Published { remote: 1, local: 1, uid: Some(uid) });
        let source = Source { finalizer: true, published, ..new_source(source_uid, 1) };
        self.remotes[remote].sources[name] = Some(source);
        let mark = Some(Mark { cluster, uid: source_uid, name });
        let owner = Some(remote);
        self.targets[name] = Some(Target { uid, content: 1, generation: 1, mark, owner });
        if self.namespace.is_none() {
            let uid = self.uid();
            let made_for = Some(cluster);
            self.namespace = Some(Namespace { uid, made_for, terminating: false });
        }
        self
    }

    /// Adds a namespace that the program did not create.
    pub(super) fn with_namespace(mut self) -> Self {
        let uid = self.uid();
        self.namespace = Some(Namespace { uid, made_for: None, terminating: false });
        self
    }

    /// Adds somebody else's object.
    pub(super) fn with_foreign(mut self, name: usize, content: u8) -> Self {
        let uid = self.uid();
        let (mark, owner) = (None, None);
        self.targets[name] = Some(Target { uid, content, generation: 1, mark, owner });
        self
    }

    pub(super) fn uid(&mut self) -> u8 {
        self.uids += 1;
        self.uids
    }

    /// Adds a step to a changed world.
    pub(super) fn step(
        &self,
        steps: &mut Steps,
        calm: bool,
        event: impl Into<Cow<'static, str>>,
        change: impl FnOnce(&mut Self) -> Result<(), String>,
    ) {
        steps.push(Step::by(self, event.into(), calm, |world| {
            world.troubles -= u8::from(!calm);
            change(world)
        }));
    }

    /// Servers complete what they began.
    pub(super) fn server_steps(&self, steps: &mut Steps) {
        for (remote, of) in AB.iter().enumerate().filter(|(remote, _)| self.remotes[*remote].away) {
            self.step(steps, true, format!("{of} is back"), |world| {
                world.remotes[remote].away = false;
                Ok(())
            });
        }
        if self.namespace.is_some_and(|namespace| namespace.terminating) {
            self.step(steps, true, "the namespace goes, with all that is in it", |world| {
                (world.namespace, world.foreign, world.used) = (None, false, false);
                world.targets = [None; NAMES];
                Ok(())
            });
        }
    }

    /// What people, including attackers, may do.
    pub(super) fn people_steps(&self, events: &Events, steps: &mut Steps) {
        for (remote, of) in AB.iter().enumerate().take(events.remotes) {
            for name in 0..events.names {
                self.source_steps(events, (remote, name), steps);
            }
            if events.identities {
                self.identity_steps(remote, steps);
            }
            if events.sweep && !self.remotes[remote].swept {
                self.trouble(steps, format!("{of}: the kind of the sources is deleted"), |world| {
                    world.remotes[remote].swept = true;
                    for name in 0..NAMES {
                        world.delete_source(remote, name, true);
                    }
                });
            }
        }
        if events.foreign {
            self.foreign_steps(events, steps);
        }
    }

    /// A cluster becomes unreachable or shows another uid: its session ends.
    fn identity_steps(&self, remote: usize, steps: &mut Steps) {
        let of = AB[remote];
        let mut trouble = |event: &str, change: &dyn Fn(&mut Remote)| {
            self.trouble(steps, format!("{of} {event}"), |world| {
                change(&mut world.remotes[remote]);
                world.end_session(remote);
            });
        };
        let Remote { shows, away, .. } = self.remotes[remote];
        if !away {
            trouble("is away", &|remote| remote.away = true);
        }
        for (uid, event) in [(0, "hides its uid"), (1, "shows the uid 1"), (2, "shows the uid 2")] {
            if uid != shows {
                trouble(event, &|remote| remote.shows = uid);
            }
        }
    }

    fn end_session(&mut self, remote: usize) {
        let Some(process) = &mut self.process else { return };
        process.sessions[remote] = None;
        if let Some(attempt) = process.attempt.take_if(|attempt| attempt.remote == remote) {
            process.queued[remote][attempt.name] = true;
        }
    }

    fn source_steps(
        &self,
        events: &Events,
        at @ (remote, name): (usize, usize),
        steps: &mut Steps,
    ) {
        let mut trouble = |event: &str, change: &dyn Fn(&mut Self)| {
            let event = format!("{}/{name}: {event}", AB[remote]);
            self.trouble(steps, event, |world| change(world));
        };
        let source = self.remotes[remote].sources[name];
        let swept = self.remotes[remote].swept;
        let Some(source) = source else {
            if events.people && !swept {
                trouble("the source is created", &|world| {
                    let uid = world.uid();
                    world.remotes[remote].sources[name] = Some(new_source(uid, 1));
                });
            }
            if events.forge && !swept {
                trouble("a forged source with finalizer and generation is created", &|world| {
                    let uid = world.uid();
                    world.remotes[remote].sources[name] = Some(forged(uid));
                });
                let others = self.targets[name].filter(|target| target.owner != Some(remote));
                if let Some(mark) = others.and_then(|target| target.mark) {
                    trouble(
                        "a forged source with the uid of the copied one is created",
                        &|world| {
                            let source = Source { uid: mark.uid, ..new_source(0, 2) };
                            world.remotes[remote].sources[name] = Some(source);
                        },
                    );
                }
            }
            return;
        };
        if events.people && !source.terminating {
            trouble("the source is edited", &|world| {
                let source = world.source_mut(at);
                source.content = other(source.content);
                source.generation += 1;
            });
            trouble("the source is deleted", &|world| world.delete_source(remote, name, false));
        }
        if events.vanish {
            trouble("the source vanishes", &|world| {
                world.used = true;
                world.remotes[remote].sources[name] = None;
            });
        }
        let known =
            self.process.as_ref().is_some_and(|process| process.sources[remote][name].is_some());
        if events.stale && known {
            trouble("a list lacks the source", &|world| {
                let process = world.process.as_mut().unwrap();
                process.sources[remote][name] = None;
                process.queued[remote][name] = true;
            });
        }
    }

    fn foreign_steps(&self, events: &Events, steps: &mut Steps) {
        let alive = self.namespace.is_some_and(|namespace| !namespace.terminating);
        for name in 0..events.names {
            match self.targets[name] {
                None if alive => {
                    for content in [1, 2] {
                        let event =
                            format!("somebody creates an object {name} with content {content}");
                        self.trouble(steps, event, |world| {
                            let uid = world.uid();
                            let (mark, owner) = (None, None);
                            world.used = true;
                            world.targets[name] =
                                Some(Target { uid, content, generation: 1, mark, owner });
                        });
                    }
                }
                None => {}
                Some(target) => {
                    self.trouble(steps, format!("somebody edits target {name}"), |world| {
                        let content = other(target.content);
                        let generation = target.generation + 1;
                        world.targets[name] = Some(Target { content, generation, ..target });
                    });
                    self.trouble(steps, format!("somebody deletes target {name}"), |world| {
                        world.targets[name] = None;
                    });
                    if target.mark.is_some() {
                        self.trouble(
                            steps,
                            format!("somebody takes target {name}: its mark goes"),
                            |world| {
                                world.targets[name] =
                                    Some(Target { mark: None, owner: None, ..target });
                            },
                        );
                    }
                }
            }
        }
        if alive && !self.foreign {
            self.trouble(steps, "somebody puts something else into the namespace", |world| {
                (world.foreign, world.used) = (true, true);
            });
        }
    }

    fn trouble(
        &self,
        steps: &mut Steps,
        event: impl Into<Cow<'static, str>>,
        change: impl FnOnce(&mut Self),
    ) {
        self.step(steps, false, event, |world| {
            change(world);
            Ok(())
        });
    }

    fn source_mut(&mut self, (remote, name): (usize, usize)) -> &mut Source {
        self.remotes[remote].sources[name].as_mut().unwrap()
    }

    /// Deletes a source: with a finalizer, it stays and terminates.
    fn delete_source(&mut self, remote: usize, name: usize, swept: bool) {
        let source = &mut self.remotes[remote].sources[name];
        self.used |= source.is_some_and(|source| !source.finalizer);
        if let Some(source) = source.filter(|source| swept && !source.finalizer) {
            self.swept_away[remote][name] = Some(source.uid);
        }
        *source = source.take().filter(|source| source.finalizer).map(|source| Source {
            terminating: true,
            swept: source.swept || swept && !source.terminating,
            ..source
        });
    }
}

/// The remotes' names.
pub(super) const AB: [&str; REMOTES] = ["A", "B"];

pub(super) fn new_source(uid: u8, content: u8) -> Source {
    Source {
        uid,
        content,
        generation: 1,
        finalizer: false,
        terminating: false,
        published: None,
        swept: false,
    }
}

/// The content after an edit.
fn other(content: u8) -> u8 {
    if content == 1 { 2 } else { 1 }
}

/// A terminating source that claims to have been copied.
fn forged(uid: u8) -> Source {
    let published = Some(Published { remote: 1, local: 1, uid: None });
    Source { finalizer: true, terminating: true, published, ..new_source(uid, 1) }
}
