//! Gets a cluster its credential for an Open Cluster Management hub by CSR, renews it for ever, and tells
//! the hub that the cluster lives: the registration agent's work.

mod agent;
mod names;
mod settings;

fn main() {}
