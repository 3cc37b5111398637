//! klusterlet-agent as a process, between two embedded servers.

mod process;
mod smoke;
mod works;
