//! Faults that only the embedded server has, each test named after its number in testing/README.md. What concerns
//! all four programs is in `everywhere` too.

mod answers;
mod certificates;
mod credentials;
mod kubeconfigs;
mod lease;
mod network;
mod proxy;
mod refusals;
mod sigterm;
