//! What every program has: flags, log, endpoint, metrics, signals, leadership, exit codes.

pub mod client;
pub mod diagnostics;
pub mod flags;
pub mod leadership;
pub mod logging;
pub mod metrics;
pub mod renewal;
pub mod runtime;
