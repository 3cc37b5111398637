//! Cluster access: reflectors that keep stores up to date, and rate-limited requests.

pub(crate) mod cluster;
mod documents;
pub(crate) mod rate_limiter;
pub(crate) mod reflector;
pub(crate) mod retry;
pub(crate) mod store;
pub(crate) mod watched;
