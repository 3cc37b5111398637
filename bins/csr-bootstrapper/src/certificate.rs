//! The certificate for the hub: whether one is needed, how it is asked for, and the Secret that it is saved in.

mod csr;
mod csr_status;
mod csr_watch;
mod deadline;
mod machine;
mod manager;
mod need;
mod observe;
mod perform;
mod readiness;
mod registrar;
pub(crate) mod store;
mod validate;

#[cfg(test)]
pub(crate) use self::csr::authority;
pub(crate) use self::{manager::OnceGoal, readiness::ready, registrar::CertificateManager};
