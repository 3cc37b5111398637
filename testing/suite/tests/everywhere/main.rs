//! Faults that concern all four programs, next to each of their servers. On the embedded server alone.

mod answers;
mod bootstrapper;
mod config;
mod dumper;
mod lease;
mod monitoring;
mod network;
mod process;
mod refusals;
mod smoke;
mod stage;
mod strike;
mod sync;
mod trust;
