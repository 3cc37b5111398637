//! One of the four programs in its steady state: its servers, and how a test sees that it works.

use std::{process::Command, sync::Arc};

use dev_apiserver::{Action, Faults, Rule};
use suite::{
    cluster::Cluster,
    relay::Relay,
    sidecar::{Sidecar, free_port},
};

use crate::{bootstrapper, dumper, lease, sync};

/// Seconds until a program is well again, after whatever: a watch that fails again and again waits for 64.
pub(crate) const RECOVERY: u64 = 90;

/// A server that the program talks to.
pub(crate) struct Peer<'a> {
    pub(crate) cluster: &'a Arc<Cluster>,
    /// The way to it.
    pub(crate) relay: &'a Relay,
    /// As whom.
    pub(crate) user: String,
}

/// A program and all that is around it.
pub(crate) trait Stage: Send + Sync {
    /// The servers that the program talks to; its local cluster comes first.
    fn peers(&self) -> Vec<Peer<'_>>;
    /// The program with the flags of its steady state.
    fn command(&self, port: u16) -> Command;
    /// Brings what was just started into the steady state.
    fn settle(&self, process: &Sidecar);
    /// Changes something on each server that the program has to follow, and waits until it did.
    fn lives_within(&self, seconds: u64, process: &Sidecar);
    /// Checks that nothing forbidden was done, whatever servers say.
    fn unharmed(&self);

    /// The same in the time that any fault may cost.
    fn lives(&self, process: &Sidecar) {
        self.lives_within(RECOVERY, process);
    }

    /// Whether credentials of which only a half was replaced leave the whole ones in use.
    fn keeps_old_credentials(&self) -> bool {
        true
    }

    /// The server of -kubeconfig.
    fn own(&self) -> Peer<'_> {
        self.peers().remove(0)
    }

    /// Starts the program as it usually is.
    fn start(&self) -> Sidecar {
        self.start_as(&|_| {})
    }

    /// Starts it with other flags or another environment.
    fn start_as(&self, change: &dyn Fn(&mut Command)) -> Sidecar {
        let port = free_port();
        let mut command = self.command(port);
        change(&mut command);
        Sidecar::spawn(command, port)
    }
}

impl Peer<'_> {
    pub(crate) fn faults(&self) -> &Faults {
        self.cluster.faults()
    }

    /// A fault for all that the program asks this server.
    pub(crate) fn add(&self, action: Action) -> u64 {
        self.faults().add(Rule::new(action).user(&self.user))
    }
}

/// A program's letter in a test's names, and what sets its stage under a name.
pub(crate) type Program = (&'static str, fn(&str) -> Box<dyn Stage>);

pub(crate) const LEASE: Program = ("L", lease::stage);
pub(crate) const AGENT: Program = ("C", bootstrapper::stage);
pub(crate) const DUMPER: Program = ("D", dumper::stage);
pub(crate) const SYNC: Program = ("R", sync::stage);
pub(crate) const ALL: [Program; 4] = [LEASE, AGENT, DUMPER, SYNC];
