//! Renews an add-on's Lease while its pod is healthy: the drop-in for klusterlet-addon-lease-controller.

mod credentials;
mod gate;
mod renewal;
mod report;
mod run;
mod settings;
mod world;

use std::process::ExitCode;

use shared::program;

fn main() -> ExitCode {
    world::started();
    program::main("addon-lease-controller", &settings::table(), settings::Settings::new, run::run)
}
