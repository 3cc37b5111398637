//! Clusters: connections, and the watches that start with them.

use std::{sync::Arc, time::Instant};

use apiclient::{client::RequestMetrics, error::Result, rate_limiter::RateLimiter, stop::Stop};
use sidecar::{flags::Flags, runtime};

use crate::{
    cache::{
        cluster::{SourceSide, TargetSide},
        documents::DocumentCache,
    },
    connection::{self, ClusterRecords, ClusterSession, Connection, ConnectionConfig},
    controller::{Controller, LocalCluster, handlers, remotes},
    settings::{Direction, OWN, Operation, Settings},
    sync::{context::SyncContext, remote::RemoteSync},
};

/// Builds the controller with the local cluster, without sending a request.
///
/// # Errors
/// `BadConfig` if its kubeconfig cannot be used.
pub(crate) fn build(settings: Settings, flags: &Flags, stop: &Stop) -> Result<Controller> {
    // Checked first: with an unusable kubeconfig the process exits.
    sidecar::client::own_cluster(flags, settings.timeout, RequestMetrics::default())?;
    let (records, credentials) = (ClusterRecords::new(&settings), stop.child());
    let readers = vec![stop.clone(), credentials.clone()];
    let cluster = connect(&settings, &records, OWN, readers, stop)?;
    records.set_local(cluster.clone());
    let documents = Arc::<DocumentCache>::default();
    let local = match settings.direction {
        Direction::Pull => LocalCluster::Target(TargetSide::new(cluster, &settings, &documents)),
        Direction::Push => LocalCluster::Source(SourceSide::new(cluster, &settings, &documents)),
    };
    let context = SyncContext::new(settings, records.clone());
    Ok(Controller::new(Arc::new(context), local, credentials, records, documents, stop))
}

/// Starts the local cluster's watches, and all remotes.
///
/// # Errors
/// `BadConfig` if no thread can be started.
pub(crate) fn start(controller: &Arc<Controller>, flags: &Flags) -> Result<()> {
    watch(controller, None, &controller.stop)?;
    remotes::start(controller, sidecar::client::load_own(flags))?;
    let supervisor = controller.clone();
    runtime::spawn("queues", move || supervisor.supervise_queues())
}

/// Starts the watches of a remote's cluster, or of the local one.
fn watch(
    controller: &Arc<Controller>,
    remote: Option<&Arc<RemoteSync>>,
    stop: &Stop,
) -> Result<()> {
    // It lists for itself.
    if controller.context.settings.operation == Operation::Cleanup {
        return Ok(());
    }
    match (&controller.local, remote) {
        (LocalCluster::Source(side), None) => handlers::watch_sources(controller, side, None, stop),
        (LocalCluster::Target(side), None) => handlers::watch_targets(controller, side, None, stop),
        (LocalCluster::Source(_), Some(it)) => {
            handlers::watch_targets(controller, &it.target, remote, stop)
        }
        (LocalCluster::Target(_), Some(it)) => {
            handlers::watch_sources(controller, &it.source, remote, stop)
        }
    }
}

/// Starts a connection that wakes `readers` when a session starts or ends.
fn connect(
    settings: &Settings,
    records: &Arc<ClusterRecords>,
    name: &str,
    readers: Vec<Stop>,
    stop: &Stop,
) -> Result<Arc<Connection>> {
    let config = ConnectionConfig {
        name: name.to_owned(),
        timing: settings.probes,
        request: settings.timeout,
        limiter: RateLimiter::new(settings.qps, settings.burst()),
        records: records.clone(),
    };
    connection::start(config, readers, stop)
}

/// Adds a remote and starts its watches.
///
/// # Errors
/// `BadConfig` if no thread can be started.
pub(super) fn add_remote(controller: &Arc<Controller>, name: &str) -> Result<Arc<RemoteSync>> {
    let (settings, stop) = (&controller.context.settings, controller.stop.child());
    let readers = vec![stop.clone(), controller.stop.clone()];
    let cluster = connect(settings, &controller.records, name, readers, &stop)?;
    let (of, documents) = (cluster.clone(), &controller.documents);
    let sides = match &controller.local {
        LocalCluster::Target(local) => (SourceSide::new(of, settings, documents), local.clone()),
        LocalCluster::Source(local) => (local.clone(), TargetSide::new(of, settings, documents)),
    };
    let remote = Arc::new(RemoteSync::new(name, settings, cluster, sides, stop.clone()));
    controller.add(remote.clone());
    let followed = watch(controller, Some(&remote), &stop);
    if followed.is_err() {
        // A half-started remote would block the next attempt.
        controller.remove(name);
    }
    followed.map(|()| remote)
}

/// Waits for a session of the local cluster; `None` once `stop` is raised.
pub(super) fn local_session(controller: &Controller) -> Option<ClusterSession> {
    let stop = &controller.stop;
    while !stop.raised() {
        let seen = stop.wakes();
        match controller.local.cluster().session() {
            Ok(session) => return Some(session),
            Err(_) => drop(stop.wait_for_change(seen, Instant::now() + Stop::SLICE)),
        }
    }
    None
}
