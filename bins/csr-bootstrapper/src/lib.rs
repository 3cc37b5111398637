//! Registration agent of Open Cluster Management: obtains a cluster's credential for the hub by CSR,
//! rotates it forever, and sends the cluster's heartbeats.

mod addon;
mod agent;
mod bootstrap;
mod bootstrap_kubeconfig;
mod capacity;
pub mod certificate;
mod claim;
pub mod clocks;
pub mod command;
mod conditions;
pub mod digest;
mod files;
pub mod https;
mod hub_selection;
pub mod identity;
mod managed_namespace;
mod managedcluster;
mod next_attempt;
mod program;
mod report;
mod run;
mod settings;
mod state;

use std::{env, process::ExitCode};

use sidecar::{
    flags::{Flag, Flags, Invocation},
    runtime,
};

use self::command::Command;
pub use self::{
    program::{Duty, Program},
    run::run,
    settings::{NAMESPACE, Settings},
};

pub fn main() -> ExitCode {
    let (command, arguments) = Command::split(env::args_os(), &["registration"]);
    let table = settings::table(command != Command::default());
    let name = env!("CARGO_PKG_NAME");
    let check = |flags: &Flags| Settings::new(flags).map(Invocation::Run);
    runtime::main_with(name, &table, arguments, check, |settings, flags, stop| {
        // The registration agent's Lease (ocm `pkg/common/options/options.go`).
        let program = Program { name, lock: "registration-agent-lock", duty: None };
        run(settings, flags, stop, program)
    })
}

/// The registration agent's flags, with its defaults; klusterlet-agent has them too.
pub fn agent_flags() -> Vec<Flag> {
    settings::table(true)
}
