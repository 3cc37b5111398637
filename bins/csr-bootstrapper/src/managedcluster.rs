//! The ManagedCluster on the hub: its creation, its spec, its status and its Lease.

mod event;
mod health;
mod lease;
mod spec;
mod status;

pub(crate) use self::{
    lease::run as run_heartbeat,
    spec::{MANAGED_CLUSTERS, accepted, accepts_client, follow, introduce},
    status::run as run_status,
};
