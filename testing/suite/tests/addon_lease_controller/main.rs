//! addon-lease-controller as a process, on either server: what users rely on, and the defects of the Go sidecar that
//! it does not have. `smoke` holds what they would lose first.

mod audit;
mod election;
mod endpoint;
mod flags;
mod lease;
mod network;
mod pod;
mod process;
mod reconcile;
mod rights;
mod rotation;
mod secret;
mod smoke;
mod support;
mod target;
