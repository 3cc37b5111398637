//! Copies between clusters: remote-sync with two and more API servers, on either kind of server.

mod explain;
mod faults;
mod fleet;
mod identity;
mod kinds;
mod namespaces;
mod operation;
mod process;
mod secrets;
mod smoke;
mod support;
mod track;
mod waiting;
