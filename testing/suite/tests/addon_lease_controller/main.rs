//! addon-lease-controller as a process: what a user relies on, and what the Go sidecar gets wrong, on either
//! server; `faults` on the embedded one alone. Most of the time is waiting: more threads than processors are a
//! gain (`-- --test-threads=8`).

mod audit;
mod election;
mod endpoint;
mod faults;
mod flags;
mod in_cluster;
mod lease;
mod network;
mod pod;
mod process;
mod reconcile;
mod rights;
mod rotation;
mod secrecy;
mod secret;
mod support;
mod target;
