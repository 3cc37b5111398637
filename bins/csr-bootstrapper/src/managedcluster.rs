//! The ManagedCluster on the hub: its creation, its spec, its status and its Lease.

mod conditions;
mod event;
mod health;
mod lease;
mod spec;
mod status;

pub(crate) use self::{
    conditions::accepted,
    lease::run as run_heartbeat,
    spec::{MANAGED_CLUSTERS, accepts_client, follow, introduce},
    status::run as run_status,
};
