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
mod leader;
mod mapping;
mod marks;
mod news;
mod once;
mod orphan;
mod perform;
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

use shared::program;

fn main() -> ExitCode {
    program::main("remote-sync", &settings::table(), settings::Settings::new, run::run)
}
