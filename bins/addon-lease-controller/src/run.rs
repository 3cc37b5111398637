//! The threads: one per Lease, one per watch, one for the election. Each performs what the pure parts
//! decide; all end with the process.

use std::{
    fs, io,
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use shared::{
    client::{Client, Reload},
    election::{self, Candidate},
    endpoint,
    error::{Error, Result},
    flags::Flags,
    kubeconfig::{self, Env},
    resource::{LEASES, PODS, valid_name},
    stop::Stop,
    watch::{Change, follow},
};

use crate::{
    credentials,
    gate::{Gate, judge},
    renewal::{Action, Now, Outcome, Renewal},
    report::Status,
    settings::Settings,
    world::{Target, World},
};

/// The longest sleep in one piece: a machine that slept itself is noticed this late.
const SLICE: Duration = Duration::from_secs(15);
/// A leader gets this long to let go of its Lease when the process is asked to end.
const FAREWELL: Duration = Duration::from_millis(800);

/// Does the work until `stop` is raised.
///
/// # Errors
/// What is refused at the start: a kubeconfig that cannot be used, a port that cannot be served.
pub(crate) fn run(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<()> {
    let managed = managed_client(settings, flags)?;
    let world = Arc::new(world(settings, managed, stop));
    let port = u16::try_from(flags.number("metrics-port"));
    let port =
        port.map_err(|_| Error::BadConfig("-metrics-port is above 65535 or negative".into()))?;
    let report = Status { world: world.clone(), lease: settings.lease_name.clone() };
    endpoint::serve(flags.text("metrics-host"), port, stop, report)?;
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
    let mut targets = Vec::new();
    if let Some(hub) = &settings.hub {
        targets.push(Target::new("hub", &hub.namespace, None));
    }
    if let Some(namespace) = &settings.managed {
        targets.push(Target::new("managed", namespace, managed.clone()));
    }
    let (gated, elected) = (settings.pod.is_some(), settings.election.is_some());
    World::new(stop.clone(), settings.period, targets, managed, gated, elected)
}

/// The cluster this runs on; not needed for a hub kubeconfig in a file and nothing else.
fn managed_client(settings: &Settings, flags: &Flags) -> Result<Option<Arc<Client>>> {
    let from_secret = settings.hub.as_ref().is_some_and(|hub| hub.secret().is_some());
    if !from_secret
        && settings.managed.is_none()
        && settings.pod.is_none()
        && settings.election.is_none()
    {
        return Ok(None);
    }
    let (file, master) =
        (flags.some("kubeconfig").map(PathBuf::from), flags.some("master").map(str::to_owned));
    let load = move || kubeconfig::load(file.as_deref(), master.as_deref(), &Env::process());
    let access = load()?;
    let timeout = settings.request_timeout();
    let client =
        Client::new("the managed cluster", access, Reload::FromFiles(Box::new(load)), timeout)?;
    Ok(Some(Arc::new(client)))
}

/// Starts all threads; what it returns is closed when the election's has ended.
fn start(settings: &Settings, world: &Arc<World>) -> Result<Option<Receiver<()>>> {
    let settings = Arc::new(settings.clone());
    for index in 0..world.targets.len() {
        let (settings, world) = (settings.clone(), world.clone());
        spawn("renew", move || keep_lease(&settings, &world, &world.targets[index]))?;
    }
    if settings.hub.is_some() {
        let (settings, world) = (settings.clone(), world.clone());
        spawn("credentials", move || credentials::follow(&settings, &world))?;
    }
    if settings.pod.is_some() {
        let (settings, world) = (settings.clone(), world.clone());
        spawn("pod", move || follow_pod(&settings, &world))?;
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

/// Renews one Lease until the end.
fn keep_lease(settings: &Settings, world: &World, target: &Target) {
    let mut renewal =
        Renewal::new(&target.namespace, &settings.lease_name, settings.period, Instant::now());
    loop {
        let seen = world.stop.wakes();
        target.beat();
        let now = Now::read();
        let client = target.client();
        let action = renewal.next(client.is_some() && world.allows(now.instant), now);
        let (Some(client), false) = (client, matches!(action, Action::Wait(_))) else {
            let until = if let Action::Wait(until) = action { until } else { now.instant + SLICE };
            if world.stop.wait_for_change(seen, until.min(now.instant + SLICE)) {
                return;
            }
            continue;
        };
        renewal.sending(&action, now);
        let answer = renew(&client, &target.namespace, &settings.lease_name, &action);
        let outcome = renewal.answered(&action, &answer, Now::read(), fastrand::f64());
        tell(&outcome, &answer, &renewal, target, &client, settings);
    }
}

/// Performs one request of a renewal: in the steady state the one PUT that renews the Lease.
fn renew(client: &Client, namespace: &str, name: &str, action: &Action) -> Result<Value> {
    let lease = LEASES.object(namespace, name);
    match action {
        Action::Replace(renewed) => client.replace(&lease, renewed),
        Action::Create(new) => client.create(&lease, new),
        Action::Read | Action::Wait(_) => client.get(&lease),
    }
}

/// One line per change; details at -v 2.
fn tell(
    outcome: &Outcome,
    answer: &Result<Value>,
    renewal: &Renewal,
    target: &Target,
    client: &Client,
    settings: &Settings,
) {
    let lease = format!("Lease {}/{} on {}", target.namespace, settings.lease_name, client.whose());
    let first = target.progress().renewed.is_none();
    match (outcome, answer) {
        (Outcome::Continue, Err(error)) => log::debug!("{error}"),
        (Outcome::Continue, Ok(_)) => {}
        (Outcome::Renewed { failures }, _) => {
            target.note(renewal, true);
            match failures {
                0 if first => {
                    log::info!("{lease} is renewed every {} s", settings.period.as_secs())
                }
                0 => log::debug!("{lease} renewed"),
                n => log::info!("{lease} is renewed again after {n} failures"),
            }
        }
        (Outcome::Failed(retry), answer) => {
            target.note(renewal, false);
            let reason = answer.as_ref().err().map(ToString::to_string).unwrap_or_default();
            if retry.tell {
                log::warn!("{lease} is not renewed: {reason}");
            } else {
                log::debug!("{lease} is not renewed: {reason}; again in {:?}", retry.wait);
            }
        }
    }
}

/// Keeps the gate as the pod's readiness says; what cannot be read changes nothing.
fn follow_pod(settings: &Settings, world: &World) {
    let (Some((namespace, name)), Some(client)) = (&settings.pod, &world.managed) else {
        return;
    };
    let set = |gate: Gate| {
        if !world.set_gate(gate.clone()) {
            return;
        }
        match gate {
            Gate::Open => log::info!("pod {namespace}/{name} is ready"),
            Gate::Closed(reason) => {
                log::info!("pod {namespace}/{name}: {reason}; the Lease is left to age")
            }
        }
    };
    follow(client, &PODS.object(namespace, name), &world.stop, &mut |change| {
        let pod = match change {
            Change::Listed(pods) => pods.into_iter().next(),
            Change::Put(pod) => Some(pod),
            Change::Removed(_) => None,
        };
        set(pod.map_or_else(
            || Gate::Closed("it does not exist".to_owned()),
            |pod| judge(&pod, settings.own_container.as_deref()),
        ));
        ControlFlow::Continue(())
    });
}

/// Takes part in the election; only the leader's gate is open.
fn take_part(settings: &Settings, world: &World) {
    let (Some(namespace), Some(client)) = (&settings.election, &world.managed) else {
        return;
    };
    let name = settings.election_name();
    let target = LEASES.object(namespace, &name);
    let candidate = Candidate::new(identity(), election::TIMING);
    election::run(client, &target, candidate, &world.stop, &|candidate| {
        let now = Instant::now();
        let before = world.set_standing(candidate, now);
        let leads = candidate.leads_until().is_some_and(|until| now < until);
        match (before.leads_until.is_some(), leads) {
            (false, true) => log::info!("leads the replicas ({target})"),
            (true, false) => log::warn!("leads the replicas no longer ({target}): renewing stops"),
            _ => {}
        }
        if candidate.stands_by(now) && !before.stands_by {
            log::info!("stands by: {} leads ({target})", candidate.holder());
        }
    });
}

/// `<host>_<random>`, as controller-runtime names a candidate.
fn identity() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| valid_name(host)).unwrap_or("sidecar").to_owned();
    format!("{host}_{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let failed = |e: io::Error| Error::BadConfig(format!("no thread for {name}: {e}"));
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop).map_err(failed)
}
