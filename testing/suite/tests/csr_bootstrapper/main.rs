//! csr-bootstrapper as a process, on either server. `smoke` has what users would lose; the rest is how a cluster moves
//! to another hub (`joining`), what the agent tells the hub (`managedcluster`), also of claims and nodes
//! (`inventory`) and namespaces (`managed_namespace`), what the hub's API server makes of heartbeats (`flow`), and the
//! mode in which another cluster than its own joins (`hosted`); and the process itself: endpoint, `-once`, rights, and
//! the klusterlet operator (`klusterlet`).

mod addon_memory;
mod addon_registration;
mod audit;
mod certificate;
mod endpoint;
mod faults;
mod flow;
mod hosted;
mod inventory;
mod joining;
mod klusterlet;
mod managed_namespace;
mod managedcluster;
mod once;
mod smoke;
mod support;
