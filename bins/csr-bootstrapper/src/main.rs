//! Registration agent of Open Cluster Management: obtains a cluster's credential for the hub by CSR,
//! rotates it forever, and sends the cluster's heartbeats.

mod addon;
mod agent;
mod bootstrap;
mod cached;
mod capacity;
mod certificate;
mod claim;
mod clocks;
mod conditions;
mod digest;
mod hub_selection;
mod identity;
mod managed_namespace;
mod managedcluster;
mod report;
mod run;
mod settings;
mod sources;
mod state;
mod write_pace;

use std::process::ExitCode;

use shared::runtime;

fn main() -> ExitCode {
    runtime::main("csr-bootstrapper", &settings::table(), settings::Settings::new, run::run)
}
