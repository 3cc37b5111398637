//! Renews the Lease of an add-on while its pod is healthy, as a drop-in for klusterlet-addon-lease-controller.

mod credentials;
mod lease;
mod pod;
mod report;
mod run;
mod settings;

use std::process::ExitCode;

use sidecar::runtime;

fn main() -> ExitCode {
    let (table, arguments) = (settings::table(), runtime::arguments());
    runtime::main("addon-lease-controller", &table, arguments, settings::Settings::new, run::run)
}
