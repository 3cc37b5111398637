//! Registration agent of Open Cluster Management: obtains a cluster's credential for the hub by CSR,
//! rotates it forever, and sends the cluster's heartbeats.

mod addon;
mod agent;
mod bootstrap;
mod capacity;
pub mod certificate;
mod claim;
pub mod clocks;
mod command;
mod conditions;
mod digest;
mod files;
pub mod https;
pub mod hub;
mod hub_selection;
pub mod identity;
mod managed_namespace;
mod managedcluster;
mod report;
mod run;
mod settings;
mod state;

use std::{env, process::ExitCode};

use sidecar::{flags::Flag, runtime};

pub use settings::NAMESPACE;

/// Runs the program with the command line of this process.
pub fn main() -> ExitCode {
    let (form, arguments) = command::command(env::args_os());
    let table = settings::table(form);
    runtime::main_with("csr-bootstrapper", &table, arguments, settings::Settings::new, run::run)
}

/// The registration agent's flags, with its defaults; klusterlet-agent has some of them.
pub fn agent_flags() -> Vec<Flag> {
    settings::table(command::CommandForm::Agent)
}
