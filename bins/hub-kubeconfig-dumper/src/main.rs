//! Files with the hub's credentials of a Secret, always as a matching set: DumpSecret of Open Cluster
//! Management's registration agent.

mod dumper;
mod report;
mod run;
mod settings;

use std::process::ExitCode;

use sidecar::runtime;

fn main() -> ExitCode {
    runtime::main("hub-kubeconfig-dumper", &settings::table(), settings::Settings::new, run::run)
}
