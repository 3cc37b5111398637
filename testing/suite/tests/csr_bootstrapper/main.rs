//! csr-bootstrapper as a process, on either server. `smoke` has what users would lose; the rest is how a cluster joins
//! a hub and moves to another one (`joining`), how the certificate is obtained and rotated (`certificate`), what the
//! hub is told (`managedcluster`), also of its add-ons (`addon`), claims (`claim`), nodes (`capacity`) and namespaces
//! (`managed_namespace`), what the hub's API server makes of heartbeats (`flow`), and the mode in which another cluster
//! than its own joins (`hosted`); and the process itself: endpoint, `-once`, rights, the command line of the klusterlet
//! operator (`operator`), and that operator itself (`klusterlet`).

mod addon;
mod addon_memory;
mod addon_registration;
mod audit;
mod capacity;
mod certificate;
mod claim;
mod endpoint;
mod features;
mod flow;
mod hosted;
mod joining;
mod klusterlet;
mod managed_namespace;
mod managedcluster;
mod once;
mod operator;
mod shipped_secrets;
mod smoke;
mod support;
