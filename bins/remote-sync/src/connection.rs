//! Supervised connection to one cluster: a thread connects, probes, disconnects and reconnects, as Cluster API's
//! clustercache does; readers never wait for it.

mod attached;
mod cluster_records;
mod event;
mod handle;
mod health;
mod identity;
mod schedule;
mod sources;
mod state_map;
mod supervisor;

use std::{sync::Arc, time::Instant};

use apiclient::{error::Result, stop::Stop};
use sidecar::runtime;

pub(crate) use self::{
    cluster_records::ClusterRecords,
    event::{ConnectionEvent, Listener},
    handle::{ClusterSession, Connection, ConnectionConfig, CredentialSource, ReloadCredentials},
    health::Phase,
    identity::OwnPod,
    schedule::ProbeTiming,
    sources::{follow_files, offer_secret, secret_config},
};
use self::{event::Notifier, supervisor::Supervisor};

/// Starts the supervision of a cluster, until `stop` is raised; the listener is not notified of that.
///
/// # Errors
/// `BadConfig` if no thread can be started.
pub(crate) fn start(
    config: ConnectionConfig,
    source: CredentialSource,
    listener: Listener,
    stop: &Stop,
) -> Result<Arc<Connection>> {
    let connection = Connection::new(config, stop);
    let notifier = Notifier::new(listener, Instant::now());
    let supervisor = Supervisor::new(connection.clone(), source, notifier, fastrand::f64);
    runtime::spawn("connection", move || supervisor.run())?;
    Ok(connection)
}

#[cfg(test)]
mod tests;
