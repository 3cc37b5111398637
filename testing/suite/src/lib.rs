//! The basis of tests and tools: real processes against the embedded API server, or against a real control plane with
//! `SUITE=real`.

pub mod audit;
pub mod cluster;
pub mod dumper;
pub mod faults;
pub mod files;
pub mod hosted;
pub mod https;
pub mod identity;
pub mod kill;
pub mod listing;
pub mod manifest;
pub mod measure;
pub mod needs;
pub mod ocm;
pub mod outputs;
pub mod proxy;
pub mod relay;
pub mod repository;
pub mod rights;
pub mod rogue;
pub mod scene;
pub mod sidecar;
pub mod spoke;
pub mod sync;
pub mod wait;
pub mod work;

pub use wait::{PATIENCE, QUIET, eventually, pause, stays, throughout, within};

use std::{env, fmt::Display, str::FromStr};

/// Returns whether the scenarios run on the real control plane.
pub fn real() -> bool {
    env::var("SUITE").is_ok_and(|suite| suite == "real")
}

/// Returns the value of this environment variable, if any.
pub fn setting<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    let text = env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|e| panic!("{name}={text:?}: {e}")))
}
