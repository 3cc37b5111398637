//! Tests of the server over real TLS: the responses measured on a real server, and each fault.

mod certificates;
mod client;
mod definitions;
mod deletion;
mod faults;
mod lists;
mod objects;
mod rbac;
mod registered;
mod schemas;
mod states;
mod watches;
