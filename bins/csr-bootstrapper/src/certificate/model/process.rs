//! The process: its caches, what it observes, and the effect of its actions, with or without an answer.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
    time::Duration,
};

use apiclient::client::{Refused, ServerClock};
use explorer::Fate;
use kubeconfig::{config::Trust, secret};

use super::{
    Registration,
    perform::words,
    world::{Credential, Csr, LIFE, LONGEST, Steps, World},
};
use crate::{
    bootstrap::NoBootstrap,
    cached::CachedObject,
    certificate::{
        csr_watch::WatchedCsr,
        machine::{CertificateAction, CsrMachine},
        need::Requester,
        observe::{
            Attempts, Inputs, ObservedCredential, SessionChange, SessionInputs, WatchAttempt,
            observe,
            tests::{bootstrap_at, hub_at},
        },
    },
    clocks::Clocks,
    identity::{self, AgentNames, NameSources},
};

pub(super) const HUB: &str = "https://hub.example:6443";
/// As the loop's.
const MOMENT: Duration = Duration::from_millis(100);
const WATCH_BEGINS: Duration = Duration::from_secs(2);
const READ_AGAIN: Duration = Duration::from_secs(15);

/// A process, as it is between two turns of its loop.
#[derive(Clone, Hash)]
pub(super) struct Process {
    pub(super) machine: CsrMachine,
    pub(super) names: u8,
    /// The credential's Secret as its watch shows it, once it does.
    pub(super) credential: Option<Option<Credential>>,
    /// Version of the pending request's Secret.
    pub(super) stored: Option<u8>,
    pub(super) session: Option<Credential>,
    announced: bool,
    /// The hub has answered, so that its time is known.
    pub(super) contacted: bool,
    client: Option<Requester>,
    pub(super) watch: Option<Watch>,
}

/// The watch of a CSR.
#[derive(Clone, Hash)]
pub(super) struct Watch {
    key: u8,
    requester: Requester,
    since: Duration,
    read: Option<Duration>,
    began: bool,
    pub(super) seen: Option<Csr>,
}

impl Watch {
    pub(super) fn is_behind(&self, csrs: &BTreeMap<u8, Csr>) -> bool {
        !self.began || self.seen != csrs.get(&self.key).copied()
    }

    pub(super) fn hear(&mut self, csrs: &BTreeMap<u8, Csr>) {
        (self.began, self.seen) = (true, csrs.get(&self.key).copied());
    }

    /// As `CsrWatcher::answered`.
    pub(super) fn answered(&mut self, csr: Option<Csr>, now: Duration) {
        (self.read, self.seen) = (Some(now), csr);
    }
}

impl Registration {
    /// What the process does next.
    pub(super) fn process_steps(&self, world: &World, steps: &mut Steps) {
        let Some(process) = &world.process else {
            world.step(steps, true, "a process starts", |world| {
                self.start(world);
                Ok(())
            });
            return;
        };
        // Until it has read the Secret there is no loop.
        if process.credential.is_none() {
            return;
        }
        let mut prepared = world.clone();
        let (observed, action) = self.prepare(&mut prepared);
        if let CertificateAction::Wait(until) = action {
            let until = observed.again.map_or(until, |again| until.min(again + MOMENT));
            self.wait(world, prepared, until - self.base, steps);
            return;
        }
        let name = words(&action);
        prepared.step(steps, true, name, |world| {
            self.perform(world, &action, &observed, Fate::Answered)
        });
        if world.troubles == 0 || matches!(action, CertificateAction::AbandonCsr(_)) {
            return;
        }
        for (what, fate) in [
            ("not sent", Fate::NotSent),
            ("its answer is lost", Fate::AnswerLost),
            ("the process is killed before the answer", Fate::Killed),
        ] {
            prepared.step(steps, false, format!("{name}: {what}"), |world| {
                self.perform(world, &action, &observed, fate)
            });
        }
    }

    fn wait(&self, before: &World, after: World, until: Duration, steps: &mut Steps) {
        let later = |world: &mut World| {
            world.now = until.max(world.now);
            Ok(())
        };
        let behind = steps.iter().any(|step| step.calm);
        if after.now > LONGEST {
            return;
        }
        if !behind && after.settled().is_err() {
            after.step(steps, true, "time passes", later);
        } else if !behind && before.rotations > 0 {
            let mut next = after;
            next.rotations -= 1;
            next.troubles += 1;
            next.step(steps, false, "time passes until the certificate is due", later);
        } else if before.troubles > 0 {
            after.step(steps, false, "time passes first", later);
        }
    }

    /// As `run::prepare`, and the first read of the Secret follows as an event.
    fn start(&self, world: &mut World) {
        let stored = world.pending;
        world.process = Some(Process {
            machine: CsrMachine::new(None),
            names: self.resolve(world),
            credential: None,
            stored: stored.filter(|_| self.rules.reads_stored).map(|stored| stored.version),
            session: None,
            announced: false,
            contacted: false,
            client: None,
            watch: None,
        });
        world.process_mut(|process| {
            let request = stored.filter(|_| self.rules.reads_stored);
            let request = request.and_then(|stored| self.stored_request(stored, process));
            process.machine = CsrMachine::new(request);
        });
    }

    fn resolve(&self, world: &mut World) -> u8 {
        let data = |names: u8| {
            let AgentNames { cluster, agent } = self.names(names);
            let data = [("cluster-name", cluster), ("agent-name", agent)];
            secret::Data::from(data.map(|(key, value)| (key.to_owned(), value.into_bytes().into())))
        };
        let secret = world.credential.map(|credential| data(credential.names));
        let pending = world.pending.filter(|_| self.rules.reads_names);
        let pending = pending.map(|pending| data(pending.names));
        let sources = NameSources {
            secret: secret.as_ref(),
            pending: pending.as_ref(),
            ..NameSources::default()
        };
        let resolved = identity::resolve(&sources, &[world.names; 26]);
        world.names += u8::from(secret.is_none() && pending.is_none());
        let mut fixtures = self.fixtures.borrow_mut();
        let known = fixtures.names.iter().position(|names| *names == resolved.names);
        known.unwrap_or_else(|| {
            fixtures.names.push(resolved.names);
            fixtures.names.len() - 1
        }) as u8
    }

    /// One turn up to an action that is not a preparation.
    pub(super) fn prepare(&self, world: &mut World) -> (Rc<ObservedCredential>, CertificateAction) {
        let now = self.instant(world.now);
        let mut attempts = Attempts::default();
        loop {
            let observed = self.observe(world, attempts);
            let process = world.process.as_mut().unwrap();
            if observed.session == SessionChange::Nothing {
                process.machine.saw(&observed, now);
            }
            let action = (self.rules.next)(&process.machine, &observed, now);
            if !action.is_preparation() {
                return (observed, action);
            }
            self.prepare_once(process, &action, &observed, &mut attempts, world.now);
        }
    }

    fn prepare_once(
        &self,
        process: &mut Process,
        action: &CertificateAction,
        observed: &ObservedCredential,
        attempts: &mut Attempts,
        now: Duration,
    ) {
        match action {
            CertificateAction::AnnounceNeed => {
                process.machine.need_announced(observed.sentence.clone());
            }
            CertificateAction::AnnouncePending { overdue } => {
                process.machine.pending_announced(*overdue);
            }
            CertificateAction::CloseRequester => {
                process.close();
                process.machine.closed();
            }
            CertificateAction::WatchCsr => {
                attempts.watch = Some(WatchAttempt::Awaited);
                let key = process.machine.request().map(|request| self.key_of(request));
                let (Some(requester), Some(key)) = (observed.requester, key) else { return };
                process.use_client(requester);
                process.watch = Some(Watch {
                    key,
                    requester,
                    since: now,
                    read: None,
                    began: false,
                    seen: None,
                });
                process.machine.watched();
            }
            _ => {
                attempts.session = true;
                self.change_session(process, &observed.session);
            }
        }
    }

    fn change_session(&self, process: &mut Process, change: &SessionChange) {
        match change {
            SessionChange::Announce(_) => process.announced = true,
            SessionChange::Close => {
                process.close();
                process.session = None;
            }
            SessionChange::Open(config, _) | SessionChange::Swap(config, _) => {
                if matches!(change, SessionChange::Open(..)) {
                    process.close();
                    process.announced = false;
                }
                process.session = process.credential.flatten();
                let session = process.session.unwrap();
                self.fixtures.borrow_mut().configs.insert(session, config.clone());
            }
            SessionChange::Nothing => {}
        }
    }

    /// As `CertificateManager::inputs`, through the real `observe`.
    fn observe(&self, world: &World, attempts: Attempts) -> Rc<ObservedCredential> {
        let process = world.process.as_ref().unwrap();
        let mut hasher = DefaultHasher::new();
        (process, attempts, world.now, world.own_ahead, world.hub_ahead).hash(&mut hasher);
        world.refused_before.hash(&mut hasher);
        let key = hasher.finish();
        if let Some(known) = self.fixtures.borrow().observed.get(&key) {
            return known.clone();
        }
        let observed = Rc::new(self.observe_anew(world, process, attempts));
        let fixtures = &mut *self.fixtures.borrow_mut();
        if fixtures.observed.len() > 20_000 {
            fixtures.observed.clear();
        }
        fixtures.observed.insert(key, observed.clone());
        observed
    }

    fn observe_anew(
        &self,
        world: &World,
        process: &Process,
        attempts: Attempts,
    ) -> ObservedCredential {
        let (names, hub, machine) = (self.names(process.names), hub_at(HUB), &process.machine);
        let (clocks, now) = (self.clocks(world, process), self.instant(world.now));
        observe(&Inputs {
            secret_name: "Secret ns/hub",
            names: &names,
            credential: match process.credential.flatten() {
                Some(credential) => CachedObject::Object(self.secret(credential)),
                None => CachedObject::Absent,
            },
            bootstrap: Some(bootstrap_at(HUB, Trust::System)),
            no_bootstrap: NoBootstrap::default(),
            session: process.session.map(|session| SessionInputs {
                config: self.fixtures.borrow().configs[&session].clone(),
                expires: Some(self.time(session.issued + LIFE)),
                refused: (session.issued < world.refused_before)
                    .then(|| Refused { since: now - LIFE, last: now }),
            }),
            hub: process.session.map(|_| &hub),
            session_announced: process.announced,
            patience: Duration::from_secs(30),
            hub_move: machine.hub_move(),
            obtained: machine.obtained(),
            request: machine.open_request(),
            uid: machine.uid(),
            issued: machine.issued(),
            watched: process.watch.as_ref().map(|watch| self.watched(watch, world.now, process)),
            requester_open: process.client.is_some() || process.watch.is_some(),
            attempts,
            clocks,
            requester_clocks: clocks,
            now,
        })
    }

    pub(super) fn clocks(&self, world: &World, process: &Process) -> Clocks {
        let ahead = |seconds: i64| {
            let apart = Duration::from_secs(seconds.unsigned_abs());
            let time = self.time(world.now);
            if seconds < 0 { time - apart } else { time + apart }
        };
        let last = self.instant(world.now);
        let hub = ServerClock {
            ahead: world.hub_ahead,
            time: ahead(world.hub_ahead),
            since: last - LIFE,
            last,
        };
        Clocks::new(ahead(world.own_ahead), last, process.contacted.then_some(hub))
    }

    /// As `CsrWatcher::watched`.
    fn watched(&self, watch: &Watch, now: Duration, process: &Process) -> WatchedCsr {
        let seen = || match watch.seen {
            Some(csr) => CachedObject::Object(self.csr(watch.key, csr)),
            None => CachedObject::Absent,
        };
        let seen = match watch.read {
            _ if watch.began => Some(seen()),
            Some(at) if now < at + READ_AGAIN => Some(seen()),
            None if now < watch.since + WATCH_BEGINS => None,
            _ => Some(CachedObject::Unknown),
        };
        WatchedCsr {
            name: self.request(watch.key, process.names).name,
            requester: watch.requester,
            config: bootstrap_at(HUB, Trust::System).config,
            seen,
        }
    }
}

impl Process {
    pub(super) fn close(&mut self) {
        (self.watch, self.client) = (None, None);
    }

    /// As `CsrWatcher::client`.
    pub(super) fn use_client(&mut self, requester: Requester) {
        let wanted = Some(requester).filter(|requester| *requester != Requester::Agent);
        if self.client.is_some() && self.client != wanted {
            self.watch = None;
        }
        self.client = wanted;
    }
}
