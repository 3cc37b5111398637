//! The server over real TLS: its faults, and what no test that also runs on a real server holds. Answers to the
//! programs are held by tests/kubernetes of the suite.

mod client;
mod credentials;
mod deletion;
mod faults;
mod rbac;
