//! The clusters as they are known here: watched, kept, and asked.

pub(crate) mod cluster;
mod documents;
pub(crate) mod rate_limiter;
pub(crate) mod reflector;
pub(crate) mod retry;
pub(crate) mod store;
pub(crate) mod watched;
