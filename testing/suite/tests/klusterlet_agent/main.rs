//! klusterlet-agent as a process, between two embedded servers.

mod both;
mod faults;
mod process;
mod smoke;
mod works;
