//! Supervised connection to one cluster: a thread connects, probes, disconnects and reconnects, as Cluster API's
//! clustercache does; readers never wait for it.

mod attached;
mod cluster_records;
mod handle;
mod health;
mod identity;
mod schedule;
mod sources;
mod state_map;
mod supervisor;

use std::sync::Arc;

use apiclient::{error::Result, stop::Stop};
use sidecar::runtime;

use self::supervisor::Supervisor;
pub(crate) use self::{
    cluster_records::ClusterRecords,
    handle::{ClusterSession, Connection, ConnectionConfig, CredentialSource, ReloadCredentials},
    health::Phase,
    schedule::ProbeTiming,
    sources::secret_config,
};

/// A change of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    /// A session started.
    Connected,
    /// The session ended.
    Disconnected,
}

/// The supervising thread calls it without a lock; it must not block.
pub(crate) type Notify = Box<dyn Fn(ConnectionEvent) + Send>;

/// Starts the supervision of a cluster, until `stop` is raised, which is not notified.
///
/// # Errors
/// `BadConfig` if no thread can be started.
pub(crate) fn start(
    config: ConnectionConfig,
    source: CredentialSource,
    notify: Notify,
    stop: &Stop,
) -> Result<Arc<Connection>> {
    let connection = Connection::new(config, stop);
    let supervisor = Supervisor::new(connection.clone(), source, notify, fastrand::f64);
    runtime::spawn("connection", move || supervisor.run())?;
    Ok(connection)
}

#[cfg(test)]
mod tests;
