//! addon-lease-controller as a process: what users rely on, and the defects of the Go sidecar that it does not
//! have, on either server; `faults` on the embedded one alone. The tests mostly wait: more threads than
//! processors pay off (`-- --test-threads=8`).

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
