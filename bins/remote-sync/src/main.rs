//! Keeps resources of any kind in step between a cluster and many remotes: spec down, status and chosen
//! Secrets up.

mod body;
mod cleanup;
mod connection;
mod context;
mod counts;
mod decide;
mod digest;
mod ending;
mod engine;
mod follow;
mod job;
mod kind;
mod mapping;
mod marks;
mod news;
mod once;
mod orphan;
mod perform;
mod permits;
mod queue;
mod rbac;
mod record;
mod registry;
mod remotes;
mod removal;
mod report;
mod retry;
mod route;
mod run;
mod settings;
mod site;
mod stream;
mod table;
mod throttle;
mod upload;
mod view;
mod worker;

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
