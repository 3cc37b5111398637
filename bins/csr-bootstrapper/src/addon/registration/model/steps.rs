//! Steps of the process: what it does next, and what becomes of its requests.

use std::time::Duration;

use explorer::{Fate, Step};

use super::{
    AddOnModel,
    process::{Process, Seen, certificate, object},
    turn::Next,
    world::{Request, Steps, World},
};
use crate::certificate::need::Requester;

/// A world that has not come to rest after this long never will.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl AddOnModel {
    /// What the process does next.
    pub(super) fn process_steps(&self, world: &World, steps: &mut Steps) {
        if world.process.is_none() {
            steps.push(Step::by(world, "a process starts".into(), true, |world| {
                world.process = Some(Process::new(world));
                Ok(())
            }));
            return;
        }
        let mut prepared = world.clone();
        let mut process = prepared.process.take().unwrap();
        let all = self.prepare(&mut process, world);
        prepared.process = Some(process);
        for next in all {
            match next {
                Next::Send(request) if prepared.is_left_out(request) => {}
                Next::Send(request) => self.send_steps(&prepared, request, steps),
                Next::Abandon(failure) => {
                    steps.push(Step::by(&prepared, "the CSR is abandoned".into(), true, |world| {
                        // Given up for a good reason, it counts no more.
                        world.needs_another();
                        let (now, entry) = (self.base + world.now, world.entry());
                        entry.machine.ended(&failure, Some(Requester::Agent), now, 0.0);
                        entry.close();
                        Ok(())
                    }));
                }
                Next::ConfirmGone => {
                    let event = "it is confirmed that the CSR is gone".into();
                    steps.push(Step::by(&prepared, event, true, |world| {
                        self.confirm_gone(world);
                        Ok(())
                    }));
                }
                Next::Wait(until) => self.wait(&prepared, until - self.base, steps),
            }
        }
        let is_quiet = !steps.iter().any(|step| step.calm);
        if is_quiet && !prepared.process.as_ref().unwrap().store_current {
            // What came late to the store is read by the next session.
            steps.push(Step::by(&prepared, "another session begins".into(), true, |world| {
                world.process = Some(Process::new(world));
                Ok(())
            }));
        }
    }

    fn send_steps(&self, world: &World, request: Request, steps: &mut Steps) {
        let mut send = |what: &str, calm: bool, fate: Fate| {
            steps.push(Step::by(world, format!("{request:?}{what}").into(), calm, |world| {
                world.troubles -= u8::from(!calm);
                self.send(world, request, fate)
            }));
        };
        send("", true, Fate::Answered);
        if world.troubles == 0 {
            return;
        }
        // That it is not sent is a wait before it.
        send(": its answer is lost", false, Fate::AnswerLost);
        send(": the process is killed before the answer", false, Fate::Killed);
        if !world.has_late() {
            steps.push(Step::by(
                world,
                format!("{request:?} is on its way").into(),
                false,
                |world| {
                    world.troubles -= 1;
                    let current = self.is_current(world, request);
                    let guarded = self.rules.guards_store || !request.is_of_store();
                    world.justify(request).map(|()| world.delay(request, guarded, current))
                },
            ));
        }
    }

    fn wait(&self, world: &World, until: Duration, steps: &mut Steps) {
        let is_quiet = !steps.iter().any(|step| step.calm);
        if is_quiet && world.settled().is_err() && world.now <= LONGEST {
            steps.push(Step::by(world, "time passes".into(), true, |world| {
                world.now = until.max(world.now);
                Ok(())
            }));
        }
    }

    /// Whether a write is about what is still as the process knows it. Secrets are read before each write.
    fn is_current(&self, world: &World, request: Request) -> bool {
        !(request.is_of_store() && self.rules.guards_store)
            || world.process.as_ref().is_some_and(|process| process.store_current)
    }

    fn send(&self, world: &mut World, request: Request, fate: Fate) -> Result<(), String> {
        world.justify(request)?;
        if let Request::Post(_, key) | Request::Save(_, key) = request
            && key.subject != world.entry().subject
        {
            return Err("a certificate of another subject is asked for, or saved".into());
        }
        let current = self.is_current(world, request);
        let done = world.take(request, current)?;
        match fate {
            Fate::Killed => world.kill(),
            Fate::AnswerLost => {
                world.process.as_mut().unwrap().is_stale |= request.is_of_store();
            }
            _ => self.answered(world, request, done),
        }
        Ok(())
    }

    /// Records the answer, as the code that sent the request does.
    fn answered(&self, world: &mut World, request: Request, done: bool) {
        let (now, store, csrs) = (self.base + world.now, world.store, world.csrs.clone());
        let process = world.process.as_mut().unwrap();
        match request {
            Request::Store(..) | Request::Forget(_) => {
                let before = process.store;
                (process.store, process.store_current) = (store, true);
                process.stored(self.rules, request, done, before);
            }
            Request::Delete(place) => process.deleted[place] = done,
            Request::Save(_, key) => {
                let entry = world.entry();
                entry.machine.saved(&certificate(key), now, false, now);
                entry.close();
            }
            Request::Post(_, key) => {
                let csr = csrs.get(&key);
                let entry = world.entry();
                csr.into_iter().for_each(|csr| entry.machine.posted(&object(*csr)));
                (entry.fresh, entry.awaited) = (false, Some((key, Seen::of(csr))));
            }
        }
    }

    fn confirm_gone(&self, world: &mut World) {
        let (now, csrs) = (self.base + world.now, world.csrs.clone());
        let entry = world.entry();
        let Some((key, seen)) = &mut entry.awaited else { return };
        *seen = Seen::of(csrs.get(key));
        if *seen == Seen::Absent {
            entry.machine.gone(Requester::Agent, now, 0.0);
        }
    }
}
