//! Cluster access: reflectors that keep stores up to date, and requests within a rate limit.

pub(crate) mod cluster;
pub(crate) mod documents;
pub(crate) mod reflector;
pub(crate) mod retry;
pub(crate) mod store;
