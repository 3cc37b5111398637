//! csr-bootstrapper as a process, on either server. `smoke` has what users would lose; the rest is how a cluster joins a
//! hub and moves to another one (`joining`), how the certificate is obtained and rotated (`certificate`), what the hub
//! is told (`managedcluster`), also of its add-ons (`addon`), claims (`claim`), nodes (`capacity`) and namespaces
//! (`managed_namespace`), what the hub's servers and OCM's own controllers make of that (`flow`, `addon_manager`,
//! `work`), and where it is told of another cluster than its own (`hosted`); and the process itself:
//! endpoint, `-once`, rights, the command line of the klusterlet operator (`operator`), and that operator
//! itself (`klusterlet`).

mod addon;
mod addon_manager;
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
mod readyz;
mod shipped_secrets;
mod smoke;
mod support;
mod work;
