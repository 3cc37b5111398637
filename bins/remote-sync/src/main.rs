//! Keeps resources of any kind in step between a cluster and many remotes: spec down, status and chosen
//! Secrets up.

// The command line.
mod settings;

// One run of the process.
mod run;

// Watches, and the pairs that a change concerns.
mod controller;

// The work on one pair: observe, decide, apply.
mod sync;

// Each cluster's objects as last seen, and requests to it.
mod cache;

// Supervised connections.
mod connection;

// Objects, names and annotations.
mod model;

// The other tasks, and the endpoints.
mod once;
mod rbac;
mod report;

use std::process::ExitCode;

use shared::{
    flags::{Flags, Invocation},
    runtime,
};

use settings::Settings;

fn main() -> ExitCode {
    runtime::main("remote-sync", &settings::table(), check, run::run)
}

/// What the flags ask for: the work, or the roles that it takes.
fn check(flags: &Flags) -> Result<Invocation<Settings>, String> {
    let settings = Settings::new(flags)?;
    Ok(match flags.switch("print-rbac") {
        true => Invocation::Print(rbac::print(&settings)),
        false => Invocation::Run(settings),
    })
}
