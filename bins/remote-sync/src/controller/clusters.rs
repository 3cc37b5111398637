//! The clusters: their connections, and where their credentials come from.

use std::{
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use shared::{
    client::Client,
    error::{Error, Result},
    flags::Flags,
    json::Document,
    kubeconfig::{self, Env},
    resource::SECRETS,
    runtime,
    stop::Stop,
    watch::{Event, Selection, Watcher},
};

use crate::{
    cache::cluster::{ClusterClient, SourceSide, TargetSide},
    connection::{
        self, ClusterSession, Connection, ConnectionEvent, CredentialSource, Listener, OwnPod,
        ReloadCredentials,
    },
    controller::{Controller, OwnCluster, watches},
    settings::{Direction, OWN, Remote, RemoteSource, Settings},
    sync::{context::SyncContext, remote::RemoteSync},
};

/// When a silent cluster is worth a line in the log: Cluster API's grace periods
/// (cluster-api `core/main.go`, remote-connection-grace-period, remote-conditions-grace-period).
const SILENCES: [Duration; 2] = [Duration::from_secs(50), Duration::from_secs(300)];
/// The longest sleep in one piece.
const SLICE: Duration = Duration::from_secs(60);

/// Makes everything that there is to the own cluster; nothing is asked of it yet.
///
/// # Errors
/// `BadConfig` when its kubeconfig cannot be used.
pub(crate) fn build(settings: Settings, flags: &Flags, stop: &Stop) -> Result<Controller> {
    // At once, so that a kubeconfig that cannot be used ends the process.
    Client::of_own_cluster(flags, settings.timeout)?;
    let (flags, timeout) = (flags.clone(), settings.timeout);
    let client = move |requests| Client::of_own_cluster_counting(&flags, timeout, requests);
    let credentials = CredentialSource::Own(Box::new(client));
    let connection = connect(&settings, OWN, credentials, (None, None), (stop, stop))?;
    let (cluster, used) =
        (ClusterClient::new(connection, &settings), Arc::<AtomicUsize>::default());
    let own = match settings.direction {
        Direction::Pull => OwnCluster::Target(TargetSide::new(cluster, &settings, &used)),
        Direction::Push => OwnCluster::Source(SourceSide::new(cluster, &settings, &used)),
    };
    Ok(Controller::new(Arc::new(SyncContext::new(settings)), own, used, stop))
}

/// Starts to follow the own cluster, and all remotes that are known.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(crate) fn start(controller: &Arc<Controller>) -> Result<()> {
    let settings = &controller.context.settings;
    match &controller.own {
        OwnCluster::Source(side) => watches::source(controller, side, None, &controller.stop)?,
        OwnCluster::Target(side) => watches::target(controller, side, None, &controller.stop)?,
    }
    let mut files = Vec::new();
    for configured in &settings.remotes {
        let file = match &configured.source {
            RemoteSource::File(path) => Some(path.clone()),
            RemoteSource::Secret { .. } => None,
        };
        let remote = add_remote(controller, &configured.name, file, None)?;
        let connection = controller.remote_cluster(&remote).connection.clone();
        match &configured.source {
            RemoteSource::File(path) => files.push((path.clone(), connection)),
            RemoteSource::Secret { .. } => follow_secret(controller, configured, connection)?,
        }
    }
    if !files.is_empty() {
        follow_files(controller, files)?;
    }
    let gates = controller.clone();
    runtime::spawn("gates", move || gates.supervise_queues())
}

/// A connection that wakes `own` and `controller` when it comes and goes.
fn connect(
    settings: &Settings,
    name: &str,
    credentials: CredentialSource,
    (file, remembered): (Option<PathBuf>, Option<String>),
    (own, controller): (&Stop, &Stop),
) -> Result<Arc<Connection>> {
    let (times, reach) = (&settings.connection, settings.reach);
    let in_cluster = || kubeconfig::in_cluster(&Env::process());
    let pod = OwnPod::of(|name| std::env::var(name).ok(), Box::new(in_cluster));
    let (named, to) = (name.to_owned(), [own.clone(), controller.clone()]);
    let notify = move |event| {
        if let ConnectionEvent::NoSuccessFor(time) = event {
            log::warn!("cluster {named} has not responded for {} s", time.as_secs());
        }
        to.iter().for_each(Stop::wake);
    };
    let settings = connection::ConnectionConfig {
        name: name.to_owned(),
        timing: times.timing,
        request: settings.timeout,
        probe_path: times.path.clone(),
        remembered,
        accepted: settings.accepted(name).map(str::to_owned).collect(),
        reload: file.map(|file| -> ReloadCredentials {
            Arc::new(move || kubeconfig::from_file(&file, reach))
        }),
        pod: pod.map(Arc::new),
    };
    let listener = Listener { silences: SILENCES.to_vec(), notify: Box::new(notify) };
    connection::start(settings, credentials, listener, own)
}

/// Adds a remote and begins to follow it; `remembered` is the cluster that it was before.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(crate) fn add_remote(
    controller: &Arc<Controller>,
    name: &str,
    file: Option<PathBuf>,
    remembered: Option<String>,
) -> Result<Arc<RemoteSync>> {
    let (settings, stop) = (&controller.context.settings, controller.stop.child());
    let known = (file, remembered);
    let connection =
        connect(settings, name, CredentialSource::Offered, known, (&stop, &controller.stop))?;
    let cluster = ClusterClient::new(connection, settings);
    let (source, target) = match &controller.own {
        OwnCluster::Target(own) => {
            (SourceSide::new(cluster, settings, &controller.used), own.clone())
        }
        OwnCluster::Source(own) => {
            (own.clone(), TargetSide::new(cluster, settings, &controller.used))
        }
    };
    let remote = Arc::new(RemoteSync::new(name, settings, source, target, stop.clone()));
    controller.add(remote.clone());
    let followed = match &controller.own {
        OwnCluster::Target(_) => watches::source(controller, &remote.source, Some(&remote), &stop),
        OwnCluster::Source(_) => watches::target(controller, &remote.target, Some(&remote), &stop),
    };
    if followed.is_err() {
        // Half of it would stand in the way of the next try.
        controller.remove(name);
    }
    followed.map(|()| remote)
}

fn follow_files(controller: &Controller, files: Vec<(PathBuf, Arc<Connection>)>) -> Result<()> {
    let (reach, stop) = (controller.context.settings.reach, controller.stop.clone());
    runtime::spawn("kubeconfigs", move || connection::follow_files(&files, reach, &stop))
}

/// Follows the Secret of one remote's kubeconfig, whatever becomes of the own cluster meanwhile.
fn follow_secret(
    controller: &Arc<Controller>,
    configured: &Remote,
    connection: Arc<Connection>,
) -> Result<()> {
    let RemoteSource::Secret { namespace, name, key } = configured.source.clone() else {
        return Ok(());
    };
    let controller = controller.clone();
    runtime::spawn("kubeconfig", move || {
        let place = format!("{namespace}/{name}");
        let target = SECRETS.object(&namespace, &name);
        let feed = |secret: Option<&Document>| match secret {
            Some(Document::TooLarge(_)) => {
                let sentence = format!("Secret {place} needs too much memory");
                connection.offer(Err(Error::TooLarge(sentence)));
            }
            Some(Document::Whole(secret)) => {
                connection::offer_secret(&connection, &place, Some(secret), key.as_deref());
            }
            None => connection::offer_secret(&connection, &place, None, None),
        };
        let (mut watcher, mut listed) = (Watcher::default(), None);
        in_own_sessions(&controller, |session| {
            let selection = Selection::all(target);
            watcher.run(&session.client, &selection, &session.stop, &mut |event| {
                match event {
                    Event::Init { .. } => listed = None,
                    Event::InitApply(secret) => listed = Some(secret),
                    Event::InitDone => feed(listed.take().as_ref()),
                    Event::Apply(secret) => feed(Some(&secret)),
                    Event::Delete(_) => feed(None),
                    Event::Failed(error) => connection.offer(Err(error.clone())),
                    Event::Watching => {}
                }
                ControlFlow::Continue(())
            });
        });
    })
}

/// Does `work` in each session of the own cluster until the end.
pub(crate) fn in_own_sessions(controller: &Controller, mut work: impl FnMut(&ClusterSession)) {
    let stop = &controller.stop;
    while !stop.raised() {
        let seen = stop.wakes();
        match controller.own.cluster().session() {
            Ok(session) => work(&session),
            Err(_) => drop(stop.wait_for_change(seen, Instant::now() + SLICE)),
        }
    }
}
