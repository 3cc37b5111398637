//! Open Cluster Management's klusterlet agent in one small process: so far the work duty, ManifestWorks.

mod command;
mod report;
mod run;
mod settings;
mod work;

use std::{env, process::ExitCode};

use sidecar::runtime;

/// Runs the program with the command line of this process.
pub fn main() -> ExitCode {
    let arguments = command::arguments(env::args_os());
    let table = settings::table();
    runtime::main_with("klusterlet-agent", &table, arguments, settings::Settings::new, run::run)
}
