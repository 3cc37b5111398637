//! Certificate for the hub: from the need for one to the Secret that holds it.
//!
//! The loop in `manager.rs` gathers the inputs, `observe.rs` interprets them, `machine.rs` decides, and
//! `perform.rs` acts. Only `manager.rs`, `perform.rs` and the modules they call read a clock or do I/O.

pub mod csr;
pub mod csr_status;
mod csr_watch;
pub(crate) mod deadline;
mod hub;
pub(crate) mod machine;
mod manager;
#[cfg(test)]
mod model;
pub(crate) mod need;
pub(crate) mod observe;
mod pacing;
mod perform;
pub mod pkcs10;
mod readiness;
mod session;
pub(crate) mod store;
pub mod template;
pub mod validate;

#[cfg(test)]
pub(crate) use self::csr::authority;
pub(crate) use self::{
    csr::KUBE_API_SERVER_CLIENT,
    manager::{CertificateManager, OnceGoal},
    readiness::ready,
    template::{CsrTemplate, Subject},
};
