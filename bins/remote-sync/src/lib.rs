//! Keeps objects of any kind in sync between a cluster and many remotes: spec down, status and chosen Secrets
//! up.

// Flags and their checks.
mod settings;

// A run of the process.
mod run;

// Watches, and the pairs that a change affects.
mod controller;

// One pair at a time: observe, decide, apply.
mod sync;

// Cached objects of a cluster, and requests to it.
mod cache;

// Supervised connections.
mod connection;

// Objects, names and annotations.
pub mod model;

// Other tasks, and diagnostics.
mod cleanup;
mod explain;
mod once;
mod rbac;
mod report;

use std::process::ExitCode;

use sidecar::{
    flags::{Flags, Invocation},
    runtime,
};

use settings::Settings;

/// Runs the program with the command line of this process.
pub fn main() -> ExitCode {
    runtime::main("remote-sync", &settings::table(), check, run::run)
}

/// Turns flags into settings, or prints RBAC roles.
fn check(flags: &Flags) -> Result<Invocation<Settings>, String> {
    let settings = Settings::new(flags)?;
    if flags.switch("print-rbac") {
        return Ok(Invocation::Print(rbac::print(&settings)));
    }
    Ok(Invocation::Run(settings))
}
