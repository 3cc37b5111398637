//! What only the embedded server can do: faults of single requests, and more than two clusters.

mod cleanup;
mod crash;
mod doubt;
mod failures;
mod kinds;
pub(crate) mod known_clusters;
mod orphans;
mod push;
pub(crate) mod registry;
mod secrecy;
mod secrets;
mod track;
mod waiting;
