//! The hub, the management cluster and the clocks, with what can happen to them.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use explorer::Step;

use super::process::Process;

/// Certificates of this hub are valid for an hour.
pub(super) const LIFE: Duration = Duration::from_secs(3600);
/// A world that has not come to rest after this long never will.
pub(super) const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The jump of a clock, in seconds: two lifetimes.
const JUMP: i64 = 7200;

pub(super) type Steps = Vec<Step<World, Cow<'static, str>>>;

/// The state of the world.
#[derive(Clone, Default, Hash)]
pub(super) struct World {
    /// Time since the start, by the hub that signs.
    pub(super) now: Duration,
    /// The error of this machine's clock, in seconds.
    pub(super) own_ahead: i64,
    /// The same for the Date of the hub's answers.
    pub(super) hub_ahead: i64,
    /// By key.
    pub(super) csrs: BTreeMap<u8, Csr>,
    /// The hub refuses certificates issued before this time.
    pub(super) refused_before: Duration,
    /// The credential's Secret.
    pub(super) credential: Option<Credential>,
    /// The pending request's Secret.
    pub(super) pending: Option<Pending>,
    pub(super) process: Option<Process>,
    /// Numbers of keys and names so far.
    pub(super) keys: u8,
    pub(super) names: u8,
    /// Number of certificates that were saved.
    pub(super) saved: u8,
    /// The names that the hub knows, while a Secret or the process has the agent's names.
    pub(super) heard: Vec<u8>,
    pub(super) troubles: u8,
    pub(super) rotations: u8,
}

/// A CSR on the hub.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Csr {
    pub(super) names: u8,
    /// Whether it was posted with the agent's own credential.
    pub(super) by_agent: bool,
    pub(super) state: CsrState,
    /// The number of certificates saved when it was posted, which identifies the need.
    pub(super) need: u8,
    /// Whether its certificate was saved, or the request was given up for a good reason.
    pub(super) done: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CsrState {
    Pending,
    Approved,
    Denied,
    Failed,
    Issued(Duration),
}

/// The content of the credential's Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Credential {
    pub(super) key: u8,
    pub(super) names: u8,
    pub(super) issued: Duration,
}

/// The content of the pending request's Secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Pending {
    pub(super) key: u8,
    pub(super) names: u8,
}

impl World {
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

    /// Adds steps without trouble: events arrive, and the hub approves and signs.
    pub(super) fn calm_steps(&self, steps: &mut Steps) {
        let mut calm = |event, change: &dyn Fn(&mut Self)| {
            self.step(steps, true, event, |world| {
                change(world);
                Ok(())
            });
        };
        if self.process.as_ref().is_some_and(|it| it.credential != Some(self.credential)) {
            calm("the Secret's event arrives", &|world| {
                let credential = world.credential;
                world.process_mut(|process| process.credential = Some(credential));
            });
        }
        for (&key, csr) in &self.csrs {
            match csr.state {
                CsrState::Pending => calm("the CSR is approved", &becomes(key, CsrState::Approved)),
                CsrState::Approved => {
                    calm("the CSR is signed", &becomes(key, CsrState::Issued(self.now)));
                }
                _ => {}
            }
        }
    }

    /// Adds troubles outside of requests.
    pub(super) fn troubled_steps(&self, steps: &mut Steps) {
        let mut trouble = |event: &'static str, change: &dyn Fn(&mut Self)| {
            self.step(steps, false, event, |world| {
                change(world);
                Ok(())
            });
        };
        if self.process.is_some() {
            trouble("the process is killed", &Self::kill);
        }
        for (&key, csr) in &self.csrs {
            match csr.state {
                CsrState::Pending => trouble("the CSR is denied", &becomes(key, CsrState::Denied)),
                CsrState::Approved => {
                    trouble("the CSR cannot be signed", &becomes(key, CsrState::Failed));
                }
                _ => {}
            }
            trouble("the hub sweeps a CSR away", &|world| {
                world.csrs.remove(&key);
            });
        }
        if self.credential.is_some() {
            trouble("somebody deletes the credential", &Self::delete_credential);
            trouble("the hub refuses all certificates so far", &|world| {
                world.refused_before = world.now + Duration::from_millis(1);
                // Certificates that it signs from now on have a later time.
                world.now += Duration::from_secs(1);
            });
        }
        // One clock at a time is wrong.
        match (self.own_ahead, self.hub_ahead) {
            (0, 0) => {
                trouble("the own clock jumps ahead", &|world| world.own_ahead = JUMP);
                trouble("the own clock jumps back", &|world| world.own_ahead = -JUMP);
                trouble("the hub's clock jumps ahead", &|world| world.hub_ahead = JUMP);
                trouble("the hub's clock jumps back", &|world| world.hub_ahead = -JUMP);
            }
            _ => trouble("the clock is put right", &|world| {
                (world.own_ahead, world.hub_ahead) = (0, 0);
            }),
        }
    }

    pub(super) fn delete_credential(&mut self) {
        self.credential = None;
        self.forget_names();
    }

    /// Another process with these names stores its own request, if none is stored.
    pub(super) fn store_another(&mut self) {
        if let (Some(process), None) = (&self.process, self.pending) {
            let names = process.names;
            self.keys += 1;
            self.pending = Some(Pending { key: self.keys, names });
        }
    }

    /// The client that has the hub's clock is replaced by another one.
    pub(super) fn lose_clock(&mut self) {
        self.process_mut(|process| process.is_contacted = false);
    }

    pub(super) fn kill(&mut self) {
        self.process = None;
        self.forget_names();
    }

    /// Allows for new names once neither Secrets nor process have the old ones.
    fn forget_names(&mut self) {
        if self.credential.is_none() && self.pending.is_none() && self.process.is_none() {
            self.heard.clear();
        }
    }

    pub(super) fn process_mut(&mut self, change: impl FnOnce(&mut Process)) {
        self.process.as_mut().map(change);
    }

    /// Records that the hub knows these names.
    pub(super) fn hear(&mut self, names: u8) -> Result<(), String> {
        if !self.heard.contains(&names) {
            self.heard.push(names);
        }
        match self.heard.len() {
            1 => Ok(()),
            _ => Err("the hub knows two names of one agent".into()),
        }
    }

    /// Gives up a key; fails if its CSR is of use, unless another identity posted it or a newer certificate exists.
    pub(super) fn give_up(&mut self, key: u8, by_agent: bool) -> Result<(), String> {
        let Some(csr) = self.csrs.get(&key).filter(|csr| self.is_of_use(csr)) else {
            return Ok(());
        };
        let better = self.credential.is_some_and(|saved| match csr.state {
            CsrState::Issued(at) => saved.issued >= at,
            _ => csr.need < self.saved,
        });
        if csr.by_agent == by_agent && !better {
            return Err("a certificate is lost: its key is given up".into());
        }
        self.done(key);
        Ok(())
    }

    pub(super) fn done(&mut self, key: u8) {
        self.csrs.get_mut(&key).into_iter().for_each(|csr| csr.done = true);
    }

    /// Returns whether the hub accepts a certificate issued at this time.
    fn accepts(&self, issued: Duration) -> bool {
        issued + LIFE > self.now && issued >= self.refused_before
    }

    /// Returns whether a CSR leads to a new certificate.
    pub(super) fn is_of_use(&self, csr: &Csr) -> bool {
        match csr.state {
            _ if csr.done => false,
            CsrState::Pending | CsrState::Approved => true,
            CsrState::Denied | CsrState::Failed => false,
            CsrState::Issued(at) => self.accepts(at),
        }
    }

    /// Fails if the world must not rest in this state.
    pub(super) fn settled(&self) -> Result<(), String> {
        let Some(process) = &self.process else { return Err("it rests without a process".into()) };
        match self.credential {
            None => Err("it rests without a certificate".into()),
            Some(credential) if !self.accepts(credential.issued) => {
                Err("it rests with a certificate that is of no use".into())
            }
            _ if self.pending.is_some() => Err("it rests with a request that has served".into()),
            credential if process.session != credential => {
                Err("it rests without using its certificate".into())
            }
            _ => Ok(()),
        }
    }
}

/// Returns the change of the CSR with this key to `state`.
fn becomes(key: u8, state: CsrState) -> impl Fn(&mut World) {
    move |world| world.csrs.get_mut(&key).unwrap().state = state
}
