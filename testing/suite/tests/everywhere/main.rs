//! Faults that concern all four programs, at each of their servers. Only on the embedded server.

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
