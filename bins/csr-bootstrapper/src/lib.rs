//! Registration agent of Open Cluster Management: obtains a cluster's credential for the hub by CSR,
//! rotates it forever, and sends the cluster's heartbeats.

mod addon;
mod agent;
mod bootstrap;
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
mod report;
mod run;
mod settings;
mod state;

use std::{env, process::ExitCode, sync::Arc};

use apiclient::client::RequestMetrics;
use sidecar::{
    flags::{Flag, Flags, Invocation},
    metrics::Metrics,
    runtime,
};

use self::{command::Command, identity::AgentNames};
pub use self::{
    run::run,
    settings::{NAMESPACE, Settings},
};

/// A program that runs the registration agent: csr-bootstrapper, or klusterlet-agent with a duty besides.
pub struct Program {
    pub name: &'static str,
    /// The Lease of the leader election. It is upstream's, so that either program takes over from the other.
    pub lock: &'static str,
    pub duty: Option<Arc<dyn Duty>>,
}

/// What a process does with the files of the credential besides registration.
pub trait Duty: Send + Sync {
    /// Works until the end of the process; `requests` counts requests to the hub.
    fn run(self: Arc<Self>, names: &AgentNames, requests: &RequestMetrics);
    // Its part of the endpoint, as in `sidecar::diagnostics::Report`.
    fn healthy(&self) -> Result<(), String>;
    fn ready(&self) -> Result<(), String>;
    fn remarks(&self) -> Vec<String>;
    fn add_to(&self, metrics: &mut Metrics);
}

pub fn main() -> ExitCode {
    let (command, arguments) = Command::split(env::args_os(), &["registration"]);
    let table = settings::table(command != Command::default());
    let name = env!("CARGO_PKG_NAME");
    let check = |flags: &Flags| Settings::new(flags).map(Invocation::Run);
    runtime::main(name, &table, arguments, check, |settings, flags, stop| {
        // The registration agent's Lease (ocm `pkg/common/options/options.go`).
        let program = Program { name, lock: "registration-agent-lock", duty: None };
        run(settings, flags, stop, program)
    })
}

/// The registration agent's flags, with its defaults; klusterlet-agent has them too.
pub fn agent_flags() -> Vec<Flag> {
    settings::table(true)
}
