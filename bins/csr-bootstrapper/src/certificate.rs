//! The certificate for the hub, from the need of one to the Secret that it is saved in.
//!
//! The loop in `manager.rs` gathers what is known, `observe.rs` says what that means, `machine.rs` decides, and
//! `perform.rs` acts. Nothing but `manager.rs`, `perform.rs` and what they call reads a clock or does I/O.

mod csr;
mod csr_status;
mod csr_watch;
mod deadline;
mod hub;
mod machine;
mod manager;
mod need;
mod observe;
mod pacing;
mod perform;
mod readiness;
mod session;
pub(crate) mod store;
mod validate;

#[cfg(test)]
pub(crate) use self::csr::authority;
pub(crate) use self::{
    manager::{CertificateManager, OnceGoal},
    readiness::ready,
};
