//! What every program has: flags, log, endpoint, metrics, signals, leadership, exit codes.

pub mod client;
pub mod der;
pub mod diagnostics;
pub mod flags;
pub mod key;
pub mod leadership;
pub mod logging;
pub mod metrics;
pub mod renewal;
pub mod runtime;

/// The version of the workspace, and so of all programs.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit of the build, with `-dirty` if the source differed. `make dist` sets it; it is empty in other builds, so
/// that a commit recompiles nothing.
pub(crate) const REVISION: &str = match option_env!("SPOKE_REVISION") {
    Some(revision) => revision,
    None => "",
};
