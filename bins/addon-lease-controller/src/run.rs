//! The threads: one per Lease, one per watch, one for the election. Each performs what the pure parts
//! decide; all end with the process.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    time::{Duration, Instant},
};

use shared::{
    diagnostics,
    election::{self, Candidate},
    error::Result,
    flags::Flags,
    resource::LEASES,
    runtime::{self, End},
    stop::Stop,
};

use crate::{credentials, pod, report::Status, settings::Settings, sidecar::Sidecar};

/// A leader gets this long to let go of its Lease when the process is asked to end.
const FAREWELL: Duration = Duration::from_millis(800);

/// Does the work until `stop` is raised.
///
/// # Errors
/// What is refused at the start: a kubeconfig that cannot be used, a port that cannot be served.
pub(crate) fn run(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<End> {
    let sidecar = Arc::new(Sidecar::new(settings, flags, stop)?);
    diagnostics::serve(flags, stop, Status(sidecar.clone()))?;
    if stop.wait(settings.startup_delay) {
        return Ok(End::Stopped);
    }
    let elected = start(&sidecar)?;
    stop.wait_for_ever();
    // Closed when the election's thread has ended.
    let _ = elected.recv_timeout(FAREWELL);
    Ok(End::Stopped)
}

/// Starts all threads; what it returns is closed when the election has ended, at once if there is none.
fn start(sidecar: &Arc<Sidecar>) -> Result<Receiver<()>> {
    let settings = &sidecar.settings;
    for index in 0..sidecar.heartbeats.len() {
        spawn("renew", sidecar, move |sidecar| sidecar.heartbeats[index].keep(&sidecar.world))?;
    }
    if settings.hub.is_some() {
        spawn("credentials", sidecar, credentials::follow)?;
    }
    if settings.pod.is_some() {
        spawn("pod", sidecar, pod::follow)?;
    }
    let (end, ended) = channel();
    if settings.election.is_some() {
        spawn("election", sidecar, move |sidecar| {
            take_part(sidecar);
            drop(end);
        })?;
    }
    Ok(ended)
}

/// Takes part in the election; only the leader's gate is open.
fn take_part(sidecar: &Sidecar) {
    let Sidecar { settings, elector: Some(client), world, .. } = sidecar else { return };
    let Some(namespace) = &settings.election else { return };
    let name = settings.election_name();
    let target = LEASES.object(namespace, &name);
    let candidate = Candidate::new(election::identity(), election::TIMING);
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

fn spawn(
    name: &'static str,
    sidecar: &Arc<Sidecar>,
    work: impl FnOnce(&Sidecar) + Send + 'static,
) -> Result<()> {
    let sidecar = sidecar.clone();
    runtime::spawn(name, move || work(&sidecar))
}
