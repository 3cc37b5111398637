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
    cache::cluster::{Cluster, SourceSite, TargetSite},
    connection::{
        self, Connection, ConnectionEvent, Consumer, Pod, Reload, Session, Source as Credentials,
        Timing,
    },
    controller::{Engine, Own, watches},
    settings::{Direction, OWN, Remote, RemoteSource, Settings},
    sync::{context::Context, remote::Route},
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
pub(crate) fn own(settings: Settings, flags: &Flags, stop: &Stop) -> Result<Engine> {
    // At once, so that a kubeconfig that cannot be used ends the process.
    Client::of_own_cluster(flags, settings.timeout)?;
    let (flags, timeout) = (flags.clone(), settings.timeout);
    let client = move |requests| Client::of_own_cluster_counting(&flags, timeout, requests);
    let credentials = Credentials::Own(Box::new(client));
    let connection = connect(&settings, OWN, credentials, (None, None), (stop, stop))?;
    let (cluster, used) = (Cluster::new(connection, &settings), Arc::<AtomicUsize>::default());
    let own = match settings.direction {
        Direction::Pull => Own::Target(TargetSite::new(cluster, &settings, &used)),
        Direction::Push => Own::Source(SourceSite::new(cluster, &settings, &used)),
    };
    Ok(Engine::new(Arc::new(Context::new(settings)), own, used, stop))
}

/// Starts to follow the own cluster, and all remotes that are known.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(crate) fn start(engine: &Arc<Engine>) -> Result<()> {
    let settings = &engine.context.settings;
    match &engine.own {
        Own::Source(site) => watches::source(engine, site, None, &engine.stop)?,
        Own::Target(site) => watches::target(engine, site, None, &engine.stop)?,
    }
    let mut files = Vec::new();
    for remote in &settings.remotes {
        let file = match &remote.source {
            RemoteSource::File(path) => Some(path.clone()),
            RemoteSource::Secret { .. } => None,
        };
        let route = add(engine, &remote.name, file, None)?;
        let connection = engine.remote_of(&route).connection.clone();
        match &remote.source {
            RemoteSource::File(path) => files.push((path.clone(), connection)),
            RemoteSource::Secret { .. } => follow_secret(engine, remote, connection)?,
        }
    }
    if !files.is_empty() {
        follow_files(engine, files)?;
    }
    let gates = engine.clone();
    runtime::spawn("gates", move || gates.keep_gates())
}

/// A connection that wakes `own` and `engine` when it comes and goes.
fn connect(
    settings: &Settings,
    name: &str,
    credentials: Credentials,
    (file, remembered): (Option<PathBuf>, Option<String>),
    (own, engine): (&Stop, &Stop),
) -> Result<Arc<Connection>> {
    let (times, reach) = (&settings.connection, settings.reach);
    let in_cluster = || kubeconfig::in_cluster(&Env::process());
    let pod = Pod::of(|name| std::env::var(name).ok(), Box::new(in_cluster));
    let (named, to) = (name.to_owned(), [own.clone(), engine.clone()]);
    let tell = move |event| {
        if let ConnectionEvent::NoSuccessFor(time) = event {
            log::warn!("cluster {named} gave no sign of life for {} s", time.as_secs());
        }
        to.iter().for_each(Stop::wake);
    };
    let settings = connection::Settings {
        name: name.to_owned(),
        timing: Timing {
            retry: times.retry,
            interval: times.interval,
            timeout: times.timeout,
            failures: times.failures,
        },
        request: settings.timeout,
        probe_path: times.path.clone(),
        remembered,
        accepted: settings.accepted(name).map(str::to_owned).collect(),
        reload: file
            .map(|file| -> Reload { Arc::new(move || kubeconfig::from_file(&file, reach)) }),
        pod: pod.map(Arc::new),
    };
    let consumer = Consumer { silences: SILENCES.to_vec(), tell: Box::new(tell) };
    Connection::start(settings, credentials, vec![consumer], own)
}

/// Adds a remote and begins to follow it; `remembered` is the cluster that it was before.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(crate) fn add(
    engine: &Arc<Engine>,
    name: &str,
    file: Option<PathBuf>,
    remembered: Option<String>,
) -> Result<Arc<Route>> {
    let (settings, stop) = (&engine.context.settings, engine.stop.child());
    let known = (file, remembered);
    let connection = connect(settings, name, Credentials::Offered, known, (&stop, &engine.stop))?;
    let cluster = Cluster::new(connection, settings);
    let (source, target) = match &engine.own {
        Own::Target(own) => (SourceSite::new(cluster, settings, &engine.used), own.clone()),
        Own::Source(own) => (own.clone(), TargetSite::new(cluster, settings, &engine.used)),
    };
    let route = Arc::new(Route::new(name, settings, source, target, stop.clone()));
    engine.add(route.clone());
    let followed = match &engine.own {
        Own::Target(_) => watches::source(engine, &route.source, Some(&route), &stop),
        Own::Source(_) => watches::target(engine, &route.target, Some(&route), &stop),
    };
    if followed.is_err() {
        // Half of it would stand in the way of the next try.
        engine.remove(name);
    }
    followed.map(|()| route)
}

fn follow_files(engine: &Engine, files: Vec<(PathBuf, Arc<Connection>)>) -> Result<()> {
    let (reach, stop) = (engine.context.settings.reach, engine.stop.clone());
    runtime::spawn("kubeconfigs", move || connection::follow_files(&files, reach, &stop))
}

/// Follows the Secret of one remote's kubeconfig, whatever becomes of the own cluster meanwhile.
fn follow_secret(engine: &Arc<Engine>, remote: &Remote, connection: Arc<Connection>) -> Result<()> {
    let RemoteSource::Secret { namespace, name, key } = remote.source.clone() else {
        return Ok(());
    };
    let engine = engine.clone();
    runtime::spawn("kubeconfig", move || {
        let place = format!("{namespace}/{name}");
        let target = SECRETS.object(&namespace, &name);
        let feed = |secret: Option<&Document>| match secret {
            Some(Document::TooLarge(_)) => {
                let sentence = format!("Secret {place} needs too much memory");
                connection.offer(Err(Error::TooLarge(sentence)));
            }
            Some(Document::Whole(secret)) => {
                connection::feed_secret(&connection, &place, Some(secret), key.as_deref());
            }
            None => connection::feed_secret(&connection, &place, None, None),
        };
        let (mut stream, mut listed) = (Watcher::default(), None);
        with_own(&engine, |session| {
            let selection = Selection::all(target);
            stream.run(&session.client, &selection, &session.stop, &mut |step| {
                match step {
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
pub(crate) fn with_own(engine: &Engine, mut work: impl FnMut(&Session)) {
    let stop = &engine.stop;
    while !stop.raised() {
        let seen = stop.wakes();
        match engine.own.cluster().session() {
            Ok(session) => work(&session),
            Err(_) => drop(stop.wait_for_change(seen, Instant::now() + SLICE)),
        }
    }
}
