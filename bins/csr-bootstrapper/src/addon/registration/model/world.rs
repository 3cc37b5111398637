//! The hub, the two clusters and the store, with what can happen to them.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use explorer::Step;

use super::process::Process;

/// What there is of each cluster: the spoke, and the management cluster.
pub(super) type Places<T> = [T; 2];

pub(super) type Steps = Vec<Step<World, Cow<'static, str>>>;

/// The add-on, as its manager wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spec {
    pub(super) subject: u8,
    pub(super) hosted: bool,
    /// It names its registration.
    pub(super) registered: bool,
    pub(super) deleting: bool,
}

const FIRST: Spec = Spec { subject: 1, hosted: false, registered: true, deleting: false };

/// The add-on as a watch shows it, once there is a list.
pub(super) type View = Option<Option<Spec>>;

/// A key with a request of this subject. Numbers are used again when nothing has the key any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) number: u8,
    pub(super) subject: u8,
}

/// The content of a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Content {
    /// The certificate for this key.
    Ours(Key),
    /// Another cluster's name is in it.
    Others,
}

/// A CSR on the hub, whose certificate is in no Secret yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Csr {
    pub(super) uid: u8,
    pub(super) issued: bool,
    /// It is for what the add-on needs now.
    pub(super) current: bool,
}

/// What the store has for a Secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Stored {
    pub(super) request: Option<Key>,
}

/// A write, as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Store(usize, Stored),
    Forget(usize),
    Delete(usize),
    Save(usize, Key),
    Post(usize, Key),
}

/// A write of a process that is gone, which comes to its server later.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Late {
    pub(super) request: Request,
    /// It is rejected if what it is about is another one by then.
    pub(super) guarded: bool,
    /// What it is about is still as its sender knew it.
    pub(super) current: bool,
}

/// Everything at one moment.
#[derive(Clone, Hash)]
pub(super) struct World {
    /// Since the process started.
    pub(super) now: Duration,
    pub(super) addon: Option<Spec>,
    /// The add-on has not needed a Secret there, at some time since the process has known all.
    pub(super) unneeded: Places<bool>,
    pub(super) secrets: Places<Option<Content>>,
    /// This program has written the Secret or stored it as kept. Of others that are there nobody can know.
    pub(super) known: Places<bool>,
    pub(super) store: Places<Option<Stored>>,
    pub(super) csrs: BTreeMap<Key, Csr>,
    /// uid of the next CSR, if it is not the first of its name.
    pub(super) uid: u8,
    pub(super) late: Option<Late>,
    pub(super) process: Option<Process>,
    changes: u8,
    pub(super) troubles: u8,
}

impl World {
    pub(super) fn new(changes: u8, troubles: u8) -> Self {
        Self {
            now: Duration::ZERO,
            addon: Some(FIRST),
            unneeded: [false, true],
            secrets: [None; 2],
            known: [false; 2],
            store: [None; 2],
            csrs: BTreeMap::new(),
            uid: 0,
            late: None,
            process: None,
            changes,
            troubles,
        }
    }

    /// The same with a credential that another agent left.
    pub(super) fn taken_over(mut self) -> Self {
        self.secrets[0] = Some(Content::Ours(Key { number: 0, subject: 1 }));
        self
    }

    fn step(
        &self,
        steps: &mut Steps,
        calm: bool,
        event: impl Into<Cow<'static, str>>,
        change: impl FnOnce(&mut Self),
    ) {
        steps.push(Step::by(self, event.into(), calm, |world| {
            change(world);
            world.note_need();
            Ok(())
        }));
    }

    // --- what happens ---

    /// Events arrive, and the hub signs.
    pub(super) fn calm_steps(&self, steps: &mut Steps) {
        let (addon, csrs) = (self.addon, &self.csrs);
        if self.process.as_ref().is_some_and(|process| process.view != Some(addon)) {
            self.step(steps, true, "the add-on's event arrives", |world| {
                world.process.iter_mut().for_each(|process| process.view = Some(addon));
            });
        }
        for (key, _) in csrs.iter().filter(|(_, csr)| !csr.issued) {
            self.step(steps, true, format!("the hub signs the CSR of {key:?}"), |world| {
                world.csrs.get_mut(key).unwrap().issued = true;
            });
        }
        if self.process.as_ref().is_some_and(|process| process.is_behind(csrs)) {
            self.step(steps, true, "the CSR's event arrives", |world| {
                let csrs = world.csrs.clone();
                world.process.iter_mut().for_each(|process| process.hear(&csrs));
            });
        }
        if let Some(Late { request, current, .. }) = self.late {
            steps.push(Step::by(self, format!("{request:?} arrives late").into(), true, |world| {
                world.late = None;
                world.take(request, current).map(drop)
            }));
        }
    }

    /// The add-on's manager does something.
    pub(super) fn changing_steps(&self, steps: &mut Steps) {
        // A write is not late for that long.
        if self.changes == 0 || self.late.is_some() {
            return;
        }
        let mut becomes = |event: &'static str, addon: Option<Spec>| {
            self.step(steps, false, event, |world| {
                world.changes -= 1;
                let is_deletion = addon.is_some_and(|addon| addon.deleting);
                world.addon = addon;
                if !is_deletion {
                    world.needs_another();
                }
            });
        };
        let Some(addon) = self.addon else {
            return becomes("the add-on is installed again", Some(FIRST));
        };
        becomes("the add-on is gone", None);
        if addon.deleting {
            return;
        }
        becomes("the add-on is about to be deleted", Some(Spec { deleting: true, ..addon }));
        becomes("another subject", Some(Spec { subject: 3 - addon.subject, ..addon }));
        becomes("another deploy mode", Some(Spec { hosted: !addon.hosted, ..addon }));
        let registered = !addon.registered;
        becomes("the registration comes or goes", Some(Spec { registered, ..addon }));
    }

    /// Something goes wrong.
    pub(super) fn troubled_steps(&self, steps: &mut Steps) {
        if self.troubles == 0 {
            return;
        }
        let mut trouble = |event: String, change: &dyn Fn(&mut Self)| {
            self.step(steps, false, event, |world| {
                world.troubles -= 1;
                change(world);
            });
        };
        if let Some(process) = &self.process {
            trouble("the process is killed".into(), &Self::kill);
            if process.view.is_some() {
                trouble("the hub does not accept the cluster for a while".into(), &|world| {
                    world.process.iter_mut().for_each(|process| process.view = None);
                });
            }
        }
        for key in self.csrs.keys() {
            trouble(format!("the CSR of {key:?} is swept away"), &|world| {
                world.csrs.remove(key);
                world.uid += 1;
            });
        }
        for place in 0..2 {
            if matches!(self.secrets[place], Some(Content::Ours(_))) {
                for content in [None, Some(Content::Others)] {
                    trouble(format!("somebody makes {content:?} of Secret {place}"), &|world| {
                        world.set_secret(place, content);
                        world.needs_another();
                    });
                }
            }
        }
    }

    pub(super) fn kill(&mut self) {
        (self.process, self.now) = (None, Duration::ZERO);
    }

    /// The last write of a process that is killed comes later.
    pub(super) fn delay(&mut self, request: Request, guarded: bool, current: bool) {
        self.late = Some(Late { request, guarded, current });
        self.kill();
    }

    pub(super) fn has_late(&self) -> bool {
        self.late.is_some()
    }

    /// Two things that nothing can guard against are left out: a Secret that is created after it was seen to be absent, and
    /// forgotten; and a request that is deleted, because it has served, after it was posted again, because all else is lost.
    pub(super) fn is_left_out(&self, request: Request) -> bool {
        match (request, self.late.map(|late| late.request)) {
            (Request::Forget(one), Some(Request::Save(other, _))) => one == other,
            (Request::Post(one, _), Some(Request::Store(other, stored))) => {
                one == other && stored.request.is_none()
            }
            _ => false,
        }
    }
}

impl Spec {
    pub(super) fn is_at(&self, place: usize) -> bool {
        self.registered && usize::from(self.hosted) == place
    }
}

impl Request {
    pub(super) fn is_of_store(self) -> bool {
        matches!(self, Self::Store(..) | Self::Forget(_))
    }

    pub(super) fn has(&self, key: Key) -> bool {
        match self {
            Self::Store(_, Stored { request }) => *request == Some(key),
            Self::Save(_, of) | Self::Post(_, of) => *of == key,
            Self::Forget(_) | Self::Delete(_) => false,
        }
    }
}
