//! Keeps resources of any kind in step between a cluster and many remotes: spec down, status and chosen
//! Secrets up.

// The flags, and what the process does with them.
mod settings;
// From its start to its end: it follows clusters and starts workers.
mod run;
// Which pairs have to be reconciled when something changed.
mod controller;
// One pair after the other: observe, decide, apply.
mod sync;
// What is known of the objects on each cluster.
mod cache;
// How each cluster is reached, and whether it is the one that it was.
mod connection;
// Objects, their names and annotations.
mod model;
// What people see of it.
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
