//! csr-bootstrapper as a process, on either server: how a cluster joins a hub and moves to another one
//! (`joining`), how the certificate is obtained and rotated (`certificate`), what the hub then hears
//! (`managedcluster`); and what the program is for the node it runs on: endpoint, `-once`, flags, signals, rights.

mod audit;
mod certificate;
mod endpoint;
mod flags;
mod joining;
mod managedcluster;
mod once;
mod secrecy;
mod sigterm;
mod support;
