//! Completion of `-once` and `-cleanup`: when everything is done, and when waiting longer is of no use.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use shared::error::{Error, Result};

use crate::{
    connection::Phase,
    controller::Controller,
    sync::{remote::RemoteSync, status::PairState},
};

/// Interval between checks. A poll, as progress is made in queues, stores and connections, most of which wake
/// nobody; a check costs microseconds.
const POLL: Duration = Duration::from_millis(20);

/// Something that is not done yet.
enum Remaining {
    /// Under way.
    Pending(String),
    /// Failed, and being retried.
    Failed(String),
    /// Something else has to happen first.
    Waiting(String),
}

/// Waits until everything is in sync, but no longer than `limit`. Without a limit everything is tried once, and
/// whatever waits for something else gets the time of one request.
///
/// # Errors
/// `Unavailable` with the first thing that is not done.
pub(crate) fn finish(controller: &Controller, limit: Duration) -> Result<()> {
    let begun = Instant::now();
    loop {
        let stopped = controller.stop.wait(POLL);
        let Some(remaining) = remaining(controller) else { return Ok(()) };
        let over = match &remaining {
            _ if !limit.is_zero() => begun.elapsed() >= limit,
            Remaining::Pending(_) => false,
            Remaining::Failed(_) => true,
            Remaining::Waiting(_) => begun.elapsed() >= controller.context.settings.timeout,
        };
        let (Remaining::Pending(what) | Remaining::Failed(what) | Remaining::Waiting(what)) =
            remaining;
        let message =
            if stopped { format!("stopped before everything was done: {what}") } else { what };
        if stopped || over {
            return Err(Error::Unavailable { message, retry_after: None, of_object: false });
        }
    }
}

fn remaining(controller: &Controller) -> Option<Remaining> {
    let local = controller.local.cluster().connection.health();
    if local.failures > 0 {
        let error = local.error.unwrap_or_default();
        return Some(Remaining::Failed(format!("the local cluster: {error}")));
    }
    if !controller.all_known.load(Relaxed) {
        return Some(match controller.registry_trouble() {
            Some(why) => Remaining::Failed(format!("the remotes are not known: {why}")),
            None => Remaining::Pending("the remotes are not known".into()),
        });
    }
    let remotes = controller.remotes();
    let closed = remotes.iter().find_map(|remote| obstacle(controller, remote));
    closed.or_else(|| remotes.iter().find_map(|remote| pairs(remote)))
}

/// The obstacle that prevents a whole kind from being reconciled.
fn obstacle(controller: &Controller, remote: &RemoteSync) -> Option<Remaining> {
    let health = controller.remote_cluster(remote).connection.health();
    let in_doubt = [Phase::IdentityChanged, Phase::IdentityHidden, Phase::IdentityConflict];
    let unreachable =
        health.failures > 0 || health.error.is_some() || in_doubt.contains(&health.phase);
    let mut kinds = controller.context.settings.resources.iter();
    kinds.find_map(|(kind, wanted)| {
        let what = format!("{wanted} ({}): {}", remote.name, remote.obstacle(kind)?);
        let trouble = remote.source.stores[kind].trouble().is_some()
            || remote.target.stores[kind].trouble().is_some();
        Some(if unreachable || trouble {
            Remaining::Failed(what)
        } else {
            Remaining::Pending(what)
        })
    })
}

/// A pair that is not in sync, and not held for a person.
fn pairs(remote: &RemoteSync) -> Option<Remaining> {
    let depth = remote.queue.depth();
    if depth.queued + depth.parked + depth.running > 0 {
        return Some(Remaining::Pending(format!("pairs of {} are in the queue", remote.name)));
    }
    let first = |states: &[PairState]| {
        let found = remote.first_in(states);
        found.map(|(pair, condition)| {
            format!("{} ({}): {}", pair.key, remote.name, condition.reason)
        })
    };
    if depth.failing > 0 {
        let why = first(&[PairState::Degraded, PairState::Failing]);
        return Some(Remaining::Failed(
            why.unwrap_or_else(|| format!("a pair of {}", remote.name)),
        ));
    }
    first(&[PairState::TooLarge, PairState::Degraded, PairState::Fighting])
        .map(Remaining::Failed)
        .or_else(|| first(&[PairState::Waiting]).map(Remaining::Waiting))
}
