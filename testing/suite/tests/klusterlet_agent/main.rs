//! klusterlet-agent as a process, between two embedded servers.

mod both;
mod executor;
mod faults;
mod hostile;
mod process;
mod server_side_apply;
mod smoke;
mod status;
mod takeover;
mod works;
