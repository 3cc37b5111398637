//! hub-kubeconfig-dumper as a process, with just the rights of its manifests, on either server.

mod audit;
mod crash;
mod files;
mod process;
mod smoke;
mod volume;
