//! Clusters: connections, and the watches that start with them.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::{client::RequestMetrics, error::Result, stop::Stop};
use sidecar::{flags::Flags, runtime};

use crate::{
    cache::{
        cluster::{ClusterClient, SourceSide, TargetSide},
        documents::DocumentCache,
    },
    connection::{
        self, ClusterRecords, ClusterSession, Connection, CredentialSource, ReloadCredentials,
    },
    controller::{Controller, LocalCluster, remotes, watches},
    settings::{Direction, OWN, Settings},
    sync::{context::SyncContext, remote::RemoteSync},
};

/// The longest uninterrupted wait.
const SLICE: Duration = Duration::from_secs(60);

/// Builds the controller with the local cluster, without sending a request.
///
/// # Errors
/// `BadConfig` if its kubeconfig cannot be used.
pub(crate) fn build(settings: Settings, flags: &Flags, stop: &Stop) -> Result<Controller> {
    // Checked first: with an unusable kubeconfig the process exits.
    sidecar::client::own_cluster(flags, settings.timeout, RequestMetrics::default())?;
    let (flags, timeout) = (flags.clone(), settings.timeout);
    let client = move |requests| sidecar::client::own_cluster(&flags, timeout, requests);
    let credentials = CredentialSource::Local(Box::new(client));
    let records = ClusterRecords::new(&settings);
    let connection = connect((&settings, &records), OWN, credentials, None, (stop, stop))?;
    records.set_local(connection.clone());
    let (cluster, documents) =
        (ClusterClient::new(connection, &settings), Arc::<DocumentCache>::default());
    let local = match settings.direction {
        Direction::Pull => LocalCluster::Target(TargetSide::new(cluster, &settings, &documents)),
        Direction::Push => LocalCluster::Source(SourceSide::new(cluster, &settings, &documents)),
    };
    let context = SyncContext::new(settings, records.clone());
    Ok(Controller::new(Arc::new(context), local, records, documents, stop))
}

/// Starts the local cluster's watches, and all remotes.
///
/// # Errors
/// `BadConfig` if no thread can be started.
pub(crate) fn start(controller: &Arc<Controller>) -> Result<()> {
    match &controller.local {
        LocalCluster::Source(side) => watches::source(controller, side, None, &controller.stop)?,
        LocalCluster::Target(side) => watches::target(controller, side, None, &controller.stop)?,
    }
    remotes::start(controller)?;
    let supervisor = controller.clone();
    runtime::spawn("queues", move || supervisor.supervise_queues())
}

/// Starts a connection that wakes both stops, the cluster's and the controller's, when a session starts or
/// ends.
fn connect(
    (settings, records): (&Settings, &Arc<ClusterRecords>),
    name: &str,
    credentials: CredentialSource,
    file: Option<PathBuf>,
    (cluster, controller): (&Stop, &Stop),
) -> Result<Arc<Connection>> {
    let reach = settings.reach;
    let settings = connection::ConnectionConfig {
        name: name.to_owned(),
        timing: settings.probes,
        request: settings.timeout,
        records: records.clone(),
        reload: file.map(|file| -> ReloadCredentials {
            Arc::new(move || Ok(kubeconfig::from_file(&file, reach)?))
        }),
    };
    connection::start(settings, credentials, vec![cluster.clone(), controller.clone()], cluster)
}

/// Adds a remote and starts its watches.
///
/// # Errors
/// `BadConfig` if no thread can be started.
pub(crate) fn add_remote(
    controller: &Arc<Controller>,
    name: &str,
    file: Option<PathBuf>,
) -> Result<Arc<RemoteSync>> {
    let (settings, stop) = (&controller.context.settings, controller.stop.child());
    let connection = connect(
        (settings, &controller.records),
        name,
        CredentialSource::Offered,
        file,
        (&stop, &controller.stop),
    )?;
    let cluster = ClusterClient::new(connection, settings);
    let (source, target) = match &controller.local {
        LocalCluster::Target(local) => {
            (SourceSide::new(cluster, settings, &controller.documents), local.clone())
        }
        LocalCluster::Source(local) => {
            (local.clone(), TargetSide::new(cluster, settings, &controller.documents))
        }
    };
    let remote = Arc::new(RemoteSync::new(name, settings, source, target, stop.clone()));
    controller.add(remote.clone());
    let followed = match &controller.local {
        LocalCluster::Target(_) => {
            watches::source(controller, &remote.source, Some(&remote), &stop)
        }
        LocalCluster::Source(_) => {
            watches::target(controller, &remote.target, Some(&remote), &stop)
        }
    };
    if followed.is_err() {
        // A half-started remote would block the next attempt.
        controller.remove(name);
    }
    followed.map(|()| remote)
}

/// Runs `work` in each session of the local cluster until `stop` is raised.
pub(crate) fn in_local_sessions(controller: &Controller, mut work: impl FnMut(&ClusterSession)) {
    while let Some(session) = local_session(controller) {
        work(&session);
    }
}

/// Waits for a session of the local cluster; `None` once `stop` is raised.
pub(crate) fn local_session(controller: &Controller) -> Option<ClusterSession> {
    let stop = &controller.stop;
    while !stop.raised() {
        let seen = stop.wakes();
        match controller.local.cluster().session() {
            Ok(session) => return Some(session),
            Err(_) => drop(stop.wait_for_change(seen, Instant::now() + SLICE)),
        }
    }
    None
}
