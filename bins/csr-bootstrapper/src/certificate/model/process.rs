//! The process: what it knows, and its loop, like the one of `CertificateManager`.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
    time::{Duration, Instant},
};

use apiclient::client::ServerClock;
use explorer::Step;
use kubeconfig::secret::{self, Data};

use super::{
    Registration,
    calls::{Calls, Fault},
    fixtures::hub,
    world::{Credential, LIFE, LONGEST, Pending, Steps, World},
};
use crate::{
    certificate::{
        self, Certificate,
        csr::CertificateRequest,
        io::CertificateContext,
        validate::{self, Validation},
    },
    clocks::Clocks,
    identity::{self, AgentNames},
};

/// The first wait after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// A process between two turns of its loop.
#[derive(Clone, Default, Hash)]
pub(super) struct Process {
    certificate: Certificate,
    pub(super) names: u8,
    /// The credential's Secret by its watch; `None` before the first event.
    pub(super) credential: Option<Option<Credential>>,
    /// The pending request's Secret as last read or written.
    pub(super) stored: Option<Pending>,
    /// Whether a write of this Secret failed, but may have reached the server.
    pub(super) is_stale: bool,
    pub(super) session: Option<Credential>,
    /// The end of the wait after a failure, and whether the requester was the agent itself.
    not_before: Option<(Duration, bool)>,
    /// Whether the hub has answered, so that its time is known.
    pub(super) is_contacted: bool,
}

/// The result of one turn.
struct Turn {
    world: World,
    calls: Vec<&'static str>,
    /// When the next turn is due.
    until: Duration,
    violation: Option<String>,
}

impl Registration {
    /// Adds the next steps of the process.
    pub(super) fn process_steps(&self, world: &World, steps: &mut Steps) {
        let Some(process) = &world.process else {
            world.step(steps, true, "a process starts", |world| {
                self.start(world);
                Ok(())
            });
            return;
        };
        // The loop starts once the process has read the Secret.
        if process.credential.is_none() {
            return;
        }
        let turn = self.turn(world, None);
        if turn.violation.is_none() && digest(&turn.world) == digest(world) {
            self.wait(world, turn.until, steps);
        } else {
            steps.push(turn_step(turn.calls.join(", "), true, self.turn(world, None)));
        }
        if world.troubles == 0 {
            return;
        }
        for (at, name) in turn.calls.iter().enumerate() {
            for (what, fault) in [
                ("not sent", Fault::NotSent),
                ("its answer is lost", Fault::AnswerLost),
                ("the process is killed before the answer", Fault::Killed),
                ("before, the hub sweeps the CSRs away", Fault::Before(|world| world.csrs.clear())),
                ("before, the credential is deleted", Fault::Before(World::delete_credential)),
                ("before, another process stores a request", Fault::Before(World::store_another)),
                ("before, the hub's clock is lost", Fault::Before(World::lose_clock)),
            ] {
                let mut turn = self.turn(world, Some((at, fault)));
                turn.world.troubles -= 1;
                steps.push(turn_step(format!("{name}: {what}"), false, turn));
            }
        }
    }

    fn wait(&self, world: &World, until: Duration, steps: &mut Steps) {
        let later = |world: &mut World| {
            world.now = until.max(world.now);
            Ok(())
        };
        let is_behind = steps.iter().any(|step| step.calm);
        if world.now > LONGEST {
            return;
        }
        if !is_behind && world.settled().is_err() {
            world.step(steps, true, "time passes", later);
        } else if !is_behind && world.rotations > 0 {
            let mut next = world.clone();
            next.rotations -= 1;
            next.troubles += 1;
            next.step(steps, false, "time passes until the certificate is due", later);
        } else if world.troubles > 0 {
            world.step(steps, false, "time passes first", later);
        }
    }

    /// Like `run::resolve_names`; the first read of the Secret follows as an event.
    fn start(&self, world: &mut World) {
        let (stored, names) = (world.pending, self.resolve(world));
        world.process = Some(Process { names, stored, ..Process::default() });
    }

    fn resolve(&self, world: &mut World) -> u8 {
        let data = |names: u8| {
            let AgentNames { cluster, agent } = self.names(names);
            let data = [("cluster-name", cluster), ("agent-name", agent)];
            secret::Data::from(data.map(|(key, value)| (key.to_owned(), value.into_bytes().into())))
        };
        let secret = world.credential.map(|credential| data(credential.names));
        let pending = world.pending.map(|pending| data(pending.names));
        let is_new = secret.is_none() && pending.is_none();
        let stored = [("the Secret", secret.as_ref()), ("the pending request", pending.as_ref())];
        let (resolved, _) = identity::resolve([None; 2], &stored, &[world.names; 26]);
        world.names += u8::from(is_new);
        let mut fixtures = self.fixtures.borrow_mut();
        let known = fixtures.names.iter().position(|names| *names == resolved);
        known.unwrap_or_else(|| {
            fixtures.names.push(resolved);
            fixtures.names.len() - 1
        }) as u8
    }

    /// Returns the stored request, unless it is for other names.
    pub(super) fn stored_request(&self, stored: Pending, names: u8) -> Option<CertificateRequest> {
        let is_same = self.names(stored.names) == self.names(names);
        is_same.then(|| self.request(stored.key, stored.names))
    }

    /// Makes one turn of the loop, like `CertificateManager::reconcile`; one call may go wrong.
    fn turn(&self, before: &World, fault: Option<(usize, Fault)>) -> Turn {
        let mut world = before.clone();
        let process = world.process.as_mut().unwrap();
        let credential = process.credential.flatten();
        let clocks = self.clocks(before, process);
        let validated = self.validated(before, process, clocks);
        let (data, validation) = &*validated;
        let end = |session: Credential| self.time(session.issued + LIFE);
        if validation.is_ok() {
            process.session = credential;
        } else if process.session.is_some_and(|session| clocks.are_past(end(session))) {
            process.session = None;
        }
        let (now, session) = (self.instant(before.now), process.session);
        let is_refused = session.is_some_and(|it| it.issued < before.refused_before);
        let is_valid = session.is_some_and(|it| !clocks.are_past(end(it)));
        let hub = hub();
        let accepting = Some(&hub).filter(|_| is_valid && !is_refused);
        let requester = certificate::manager::requester(accepting, Some(&hub)).unwrap();
        if let Some((until, of)) = process.not_before
            && before.now < until
            && of == requester.is_agent
        {
            return Turn { world, calls: Vec::new(), until, violation: None };
        }
        let mut certificate = std::mem::take(&mut process.certificate);
        let need = certificate.need("Secret ns/hub", validation, is_refused, (clocks, now));
        let names = self.names(process.names);
        let mut calls = Calls {
            model: self,
            world: &mut world,
            by_agent: requester.is_agent,
            fault,
            names: Vec::new(),
            is_killed: false,
            violation: None,
        };
        let had_ended = certificate.ended;
        let mut context = CertificateContext {
            io: &mut calls,
            secret: "Secret ns/hub",
            need: &need,
            validation,
            key: data.get("tls.key").map(|key| key.as_slice()),
            requester: Some(&requester),
            template: &names.csr_template(),
            agent: &names.user(),
            now,
            random: 0.0,
        };
        let synced = (self.sync)(&mut certificate, &mut context);
        if certificate.ended && !had_ended {
            calls.give_up_stored();
        }
        let not_before = before.now + RETRY;
        let has_failed = synced.is_err();
        let until = synced.unwrap_or_else(|_| self.instant(not_before));
        let (names, is_killed, violation) = (calls.names, calls.is_killed, calls.violation);
        if is_killed {
            world.kill();
        } else if let Some(process) = &mut world.process {
            process.certificate = certificate;
            process.not_before = has_failed.then_some((not_before, requester.is_agent));
            if world.credential != before.credential && names.contains(&"save the Secret") {
                process.credential = Some(world.credential);
            }
        }
        Turn { world, calls: names, until: until - self.base, violation }
    }

    fn validated(
        &self,
        world: &World,
        process: &Process,
        clocks: Clocks,
    ) -> Rc<(Data, Validation)> {
        let credential = process.credential.flatten();
        let World { now, own_ahead, hub_ahead, .. } = *world;
        let key = (credential, process.names, now, own_ahead, hub_ahead, process.is_contacted);
        if let Some(known) = self.fixtures.borrow().validations.get(&key) {
            return known.clone();
        }
        let secret = credential.map(|credential| self.secret(credential));
        let validated = Rc::new(validate::of_secret(secret.as_ref(), |data| {
            validate::validate(data, Some(&hub()), &self.names(process.names), clocks)
        }));
        let validations = &mut self.fixtures.borrow_mut().validations;
        if validations.len() > 20_000 {
            validations.clear();
        }
        validations.insert(key, validated.clone());
        validated
    }

    pub(super) fn clocks(&self, world: &World, process: &Process) -> Clocks {
        let ahead = |seconds: i64| {
            let apart = Duration::from_secs(seconds.unsigned_abs());
            let time = self.time(world.now);
            if seconds < 0 { time - apart } else { time + apart }
        };
        let last: Instant = self.instant(world.now);
        let hub = ServerClock { ahead: world.hub_ahead, time: ahead(world.hub_ahead), last };
        Clocks::new(ahead(world.own_ahead), last, process.is_contacted.then_some(hub))
    }
}

fn turn_step(event: String, calm: bool, turn: Turn) -> Step<World, std::borrow::Cow<'static, str>> {
    let result = turn.violation.map_or(Ok(turn.world), Err);
    Step { event: event.into(), calm, result }
}

fn digest(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}
