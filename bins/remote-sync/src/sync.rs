//! Synchronization of one pair at a time: observed, decided and applied, until both sides agree.

mod altered;
pub(crate) mod apply;
pub(crate) mod context;
pub(crate) mod decide;
pub(crate) mod delete;
pub(crate) mod deletion_limit;
mod desired;
pub(crate) mod memory;
pub(crate) mod metrics;
mod namespace;
pub(crate) mod observed;
pub(crate) mod outcome;
pub(crate) mod pair;
pub(crate) mod patch;
pub(crate) mod reconcile;
pub(crate) mod remote;
mod secrets;
pub(crate) mod status;
