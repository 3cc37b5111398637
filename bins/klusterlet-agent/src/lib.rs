//! Klusterlet agent of Open Cluster Management in one small process: ManifestWorks, with or without registration, which
//! csr-bootstrapper implements.

mod command;
mod report;
mod run;
mod settings;
mod work;

use std::{env, process::ExitCode};

use sidecar::{
    flags::{Flags, Invocation},
    runtime,
};

use crate::settings::Settings;
pub use crate::work::jsonpath::JsonPath;

/// Runs the program with the command line of this process.
pub fn main() -> ExitCode {
    let (duties, arguments) = command::command(env::args_os());
    let table = settings::table(duties);
    let check = |flags: &Flags| Settings::new(flags, duties).map(Invocation::Run);
    runtime::main(env!("CARGO_PKG_NAME"), &table, arguments, check, run::run)
}
