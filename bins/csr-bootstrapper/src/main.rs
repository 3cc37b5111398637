//! Gets a cluster its credential for an Open Cluster Management hub by CSR, renews it for ever, and tells
//! the hub that the cluster lives: the registration agent's work.

mod agent;
mod asking;
mod clocks;
mod cluster;
mod health;
mod heartbeat;
mod keeper;
mod known;
mod names;
mod need;
mod progress;
mod readiness;
mod registrar;
mod registration;
mod report;
mod request;
mod rotation;
mod run;
mod secrets;
mod settings;
mod signing;
mod situation;
mod sources;
mod status;
mod steps;
mod validity;

use std::process::ExitCode;

use shared::runtime;

fn main() -> ExitCode {
    runtime::main("csr-bootstrapper", &settings::table(), settings::Settings::new, run::run)
}
