//! Certificate for the hub: from the need for one to the Secret that holds it.
//!
//! `sync.rs` requests, awaits and saves a certificate over its trait `Io`, for the cluster and for each add-on.
//! `manager.rs` is the cluster's loop, `cluster.rs` its side of `Io`.

mod cluster;
pub mod csr;
pub mod csr_status;
pub(crate) mod csrs;
pub(crate) mod deadline;
pub(crate) mod io;
mod manager;
#[cfg(test)]
mod model;
pub(crate) mod pacing;
pub mod pkcs10;
pub(crate) mod store;
pub(crate) mod sync;
pub mod validate;

#[cfg(test)]
pub(crate) use self::csr::tests::authority;
pub(crate) use self::{
    cluster::HUB_SERVER,
    csr::{CsrTemplate, KUBE_API_SERVER_CLIENT, Subject},
    manager::CertificateManager,
};
