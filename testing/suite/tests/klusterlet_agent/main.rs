//! klusterlet-agent as a process, between two embedded servers.

mod both;
mod faults;
mod process;
mod server_side_apply;
mod smoke;
mod works;
