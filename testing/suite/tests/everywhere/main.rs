//! Faults that concern all four programs, F1 to F29, beside each of their servers: each test is named after its
//! number in testing/README.md. On the embedded server alone.

mod answers;
mod bootstrapper;
mod config;
mod dumper;
mod kubeconfigs;
mod lease;
mod names;
mod network;
mod process;
mod refusals;
mod stage;
mod strike;
mod sync;
mod trust;
