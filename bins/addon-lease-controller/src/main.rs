//! Renews an add-on's Lease while its pod is healthy: the drop-in for klusterlet-addon-lease-controller.

mod credentials;
mod gate;
mod heartbeat;
mod pod;
mod report;
mod run;
mod settings;
mod sidecar;
mod world;

use std::process::ExitCode;

use shared::runtime;

fn main() -> ExitCode {
    runtime::main("addon-lease-controller", &settings::table(), settings::Settings::new, run::run)
}
