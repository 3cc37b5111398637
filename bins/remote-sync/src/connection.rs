//! Supervised connection to one cluster: a thread connects, probes, disconnects and reconnects, as Cluster API's
//! clustercache does; readers never wait for it.

mod cluster_records;
mod handle;
mod health;
mod identity;
mod schedule;
mod sources;
mod supervisor;

use std::sync::Arc;

use apiclient::{error::Result, stop::Stop};
use sidecar::runtime;

use self::supervisor::Supervisor;
pub(crate) use self::{
    cluster_records::ClusterRecords,
    handle::{ClusterSession, Connection, ConnectionConfig, CredentialSource, ReloadCredentials},
    schedule::ProbeTiming,
    sources::secret_config,
};

/// Starts the supervision of a cluster until `stop` is raised; wakes `readers` when a session starts or ends.
///
/// # Errors
/// `BadConfig` if no thread can be started.
pub(crate) fn start(
    config: ConnectionConfig,
    source: CredentialSource,
    readers: Vec<Stop>,
    stop: &Stop,
) -> Result<Arc<Connection>> {
    let connection = Connection::new(config, stop);
    let supervisor = Supervisor::new(connection.clone(), source, readers, fastrand::f64);
    runtime::spawn("connection", move || supervisor.run())?;
    Ok(connection)
}

#[cfg(test)]
mod tests;
