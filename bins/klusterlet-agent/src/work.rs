//! The work duty: applies the hub's ManifestWorks on this cluster.

mod apply;
mod apply_order;
mod bring;
mod clients;
pub(crate) mod conditions;
mod controller;
pub(crate) mod duty;
pub(crate) mod eviction;
mod hub_identity;
mod io;
pub(crate) mod jsonpath;
mod manifest;
mod merge;
pub(crate) mod objects;
mod ownership;
mod prune;
mod reconcile;
mod record;
mod records;
mod report;
mod watches;

#[cfg(test)]
mod model;
