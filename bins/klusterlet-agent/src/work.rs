//! The work duty: applies the hub's ManifestWorks on this cluster.

mod apply;
mod apply_order;
mod bring;
mod clients;
mod condition_rules;
pub(crate) mod conditions;
mod controller;
pub(crate) mod duty;
pub(crate) mod eviction;
mod executor;
pub(crate) mod feedback;
mod go_format;
mod hub_identity;
mod io;
pub(crate) mod jsonpath;
mod manifest;
mod merge;
pub(crate) mod objects;
mod ownership;
mod prepared;
mod prune;
mod reconcile;
mod record;
mod records;
mod report;
mod server_side_apply;
mod watches;

#[cfg(test)]
mod model;
