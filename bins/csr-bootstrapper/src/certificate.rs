//! Certificate for the hub: from the need for one to the Secret that holds it.
//!
//! The loop in `manager.rs` gathers the inputs, `observe.rs` interprets them, `machine.rs` decides, and
//! `perform.rs` acts. Only `manager.rs`, `perform.rs` and the modules they call read a clock or do I/O.

mod csr;
mod csr_status;
mod csr_watch;
mod deadline;
mod hub;
mod machine;
mod manager;
#[cfg(test)]
mod model;
mod need;
mod observe;
mod pacing;
mod perform;
mod pkcs10;
mod readiness;
mod session;
pub(crate) mod store;
mod template;
mod validate;

#[cfg(test)]
pub(crate) use self::csr::authority;
pub(crate) use self::{
    csr::{CLUSTER_LABEL, KUBE_API_SERVER_CLIENT},
    manager::{CertificateManager, OnceGoal},
    readiness::ready,
    template::{CsrTemplate, Subject},
};
