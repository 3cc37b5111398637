//! Gets a cluster its credential for an Open Cluster Management hub by CSR, renews it for ever, and tells
//! the hub that the cluster lives: the registration agent's work.

mod agent;
mod bootstrap;
mod cached;
mod certificate;
mod clocks;
mod identity;
mod managedcluster;
mod report;
mod run;
mod settings;
mod sources;
mod state;

use std::process::ExitCode;

use shared::runtime;

fn main() -> ExitCode {
    runtime::main("csr-bootstrapper", &settings::table(), settings::Settings::new, run::run)
}
