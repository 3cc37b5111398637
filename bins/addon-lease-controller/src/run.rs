//! The threads: one per Lease, one per watch, one for the election. Each performs what the pure parts
//! decide; all end with the process.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use shared::{
    client::{Client, Reload},
    election::{self, Candidate},
    endpoint,
    error::{Error, Result},
    flags::Flags,
    kubeconfig::{self, Env},
    resource::{LEASES, valid_name},
    stop::Stop,
};

use crate::{
    credentials, heartbeat::Heartbeat, pod, report::Status, settings::Settings, world::World,
};

/// A leader gets this long to let go of its Lease when the process is asked to end.
const FAREWELL: Duration = Duration::from_millis(800);

/// Does the work until `stop` is raised.
///
/// # Errors
/// What is refused at the start: a kubeconfig that cannot be used, a port that cannot be served.
pub(crate) fn run(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<()> {
    let started = SystemTime::now();
    let world = Arc::new(world(settings, managed_client(settings, flags)?, stop));
    endpoint::serve(flags, stop, Status { world: world.clone(), started })?;
    if stop.wait(settings.startup_delay) {
        return Ok(());
    }
    let elected = start(settings, &world)?;
    stop.wait_for_ever();
    if let Some(elected) = elected {
        // Ends when the thread does.
        let _ = elected.recv_timeout(FAREWELL);
    }
    Ok(())
}

fn world(settings: &Settings, managed: Option<Arc<Client>>, stop: &Stop) -> World {
    let heartbeat = |target, namespace: &str, client| {
        Heartbeat::new(target, (namespace, &settings.lease_name), settings.period, client)
    };
    let hub = settings.hub.as_ref().map(|hub| heartbeat("hub", &hub.namespace, None));
    let own = settings.managed.as_ref();
    let own = own.map(|namespace| heartbeat("managed", namespace, managed.clone()));
    let (gated, elected) = (settings.pod.is_some(), settings.election.is_some());
    World::new(stop.clone(), hub.into_iter().chain(own).collect(), managed, gated, elected)
}

/// The cluster this runs on; not needed for a hub kubeconfig in a file and nothing else.
fn managed_client(settings: &Settings, flags: &Flags) -> Result<Option<Arc<Client>>> {
    if !settings.needs_managed_cluster() {
        return Ok(None);
    }
    let file = flags.some("kubeconfig").map(PathBuf::from);
    let master = flags.some("master").map(str::to_owned);
    let load = move || kubeconfig::load(file.as_deref(), master.as_deref(), &Env::process());
    let (access, reload) = (load()?, Reload::FromFiles(Box::new(load)));
    let client = Client::new("the managed cluster", access, reload, settings.request_timeout())?;
    Ok(Some(Arc::new(client)))
}

/// Starts all threads; what it returns is closed when the election's has ended.
fn start(settings: &Settings, world: &Arc<World>) -> Result<Option<Receiver<()>>> {
    let settings = Arc::new(settings.clone());
    for index in 0..world.heartbeats.len() {
        let world = world.clone();
        spawn("renew", move || world.heartbeats[index].keep(&world))?;
    }
    if settings.hub.is_some() {
        let (settings, world) = (settings.clone(), world.clone());
        spawn("credentials", move || credentials::follow(&settings, &world))?;
    }
    if settings.pod.is_some() {
        let (settings, world) = (settings.clone(), world.clone());
        spawn("pod", move || pod::follow(&settings, &world))?;
    }
    if settings.election.is_none() {
        return Ok(None);
    }
    let world = world.clone();
    let (end, ended) = channel();
    spawn("election", move || {
        take_part(&settings, &world);
        drop(end);
    })?;
    Ok(Some(ended))
}

/// Takes part in the election; only the leader's gate is open.
fn take_part(settings: &Settings, world: &World) {
    let (Some(namespace), Some(client)) = (&settings.election, &world.managed) else { return };
    let name = settings.election_name();
    let target = LEASES.object(namespace, &name);
    let candidate = Candidate::new(identity(), election::TIMING);
    election::run(client, &target, candidate, &world.stop, &|candidate| {
        let (before, now) = world.set_standing(candidate, Instant::now());
        match (before.led(), now.led()) {
            (false, true) => log::info!("leads the replicas ({target})"),
            (true, false) => log::warn!("leads the replicas no longer ({target}): renewing stops"),
            _ => {}
        }
        if now.stands_by && !before.stands_by {
            log::info!("stands by: {} leads ({target})", candidate.holder());
        }
    });
}

/// `<host>_<random>`, as controller-runtime names a candidate.
fn identity() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| valid_name(host)).unwrap_or("sidecar");
    format!("{host}_{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map(drop).map_err(|e| Error::BadConfig(format!("no thread for {name}: {e}")))
}
