//! Copies between clusters: remote-sync with two and more API servers, on either kind of server.

mod explain;
mod faults;
mod identity;
mod kinds;
mod modes;
mod namespaces;
mod pauses;
mod process;
mod scope;
mod secrets;
mod smoke;
mod support;
mod waiting;
