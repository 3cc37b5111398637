//! Writes the hub's credentials from a Secret to files, always as a matching set, like DumpSecret of OCM's registration
//! agent.

mod dumper;
mod report;
mod run;
mod settings;

use std::process::ExitCode;

use sidecar::runtime;

fn main() -> ExitCode {
    let (table, arguments) = (settings::table(), runtime::arguments());
    runtime::main("hub-kubeconfig-dumper", &table, arguments, settings::Settings::new, run::run)
}
