//! `-once` and `-cleanup`: when everything is done, and when it is of no use to wait for more.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use shared::error::{Error, Result};

use crate::{
    controller::Controller,
    sync::{remote::RemoteSync, status::PairState},
};

/// Between two looks.
const POLL: Duration = Duration::from_millis(20);

/// Something that is not done.
enum Left {
    /// It is under way.
    Pending(String),
    /// It was tried in vain, and is tried again.
    Failed(String),
    /// Somebody else has to do something first.
    Waiting(String),
}

/// Waits until everything is in step, but no longer than `limit`. Without a limit everything is tried once,
/// and what waits for others gets as long as a request.
///
/// # Errors
/// `Unavailable` with the first thing that is not done.
pub(crate) fn finish(controller: &Controller, limit: Duration) -> Result<()> {
    let begun = Instant::now();
    loop {
        let stopped = controller.stop.wait(POLL);
        let Some(left) = left(controller) else { return Ok(()) };
        let over = match &left {
            _ if !limit.is_zero() => begun.elapsed() >= limit,
            Left::Pending(_) => false,
            Left::Failed(_) => true,
            Left::Waiting(_) => begun.elapsed() >= controller.context.settings.timeout,
        };
        let (Left::Pending(what) | Left::Failed(what) | Left::Waiting(what)) = left;
        let message = match stopped {
            true => format!("stopped before everything was done: {what}"),
            false => what,
        };
        if stopped || over {
            return Err(Error::Unavailable { message, retry_after: None, of_object: false });
        }
    }
}

fn left(controller: &Controller) -> Option<Left> {
    let own = controller.own.cluster().connection.health();
    if own.failures > 0 {
        let error = own.error.unwrap_or_default();
        return Some(Left::Failed(format!("the local cluster: {error}")));
    }
    if !controller.all_known.load(Relaxed) {
        return Some(match controller.registry_trouble() {
            Some(why) => Left::Failed(format!("the remotes are not known: {why}")),
            None => Left::Pending("the remotes are not known".into()),
        });
    }
    let remotes = controller.remotes();
    let closed = remotes.iter().find_map(|remote| obstacle(controller, remote));
    closed.or_else(|| remotes.iter().find_map(|remote| pairs(remote)))
}

/// What stands in the way of a whole kind.
fn obstacle(controller: &Controller, remote: &RemoteSync) -> Option<Left> {
    let health = controller.remote_cluster(remote).connection.health();
    let away = health.failures > 0 || health.error.is_some();
    let mut kinds = controller.context.settings.resources.iter().enumerate();
    kinds.find_map(|(kind, wanted)| {
        let what = format!("{wanted} ({}): {}", remote.name, remote.obstacle(kind)?);
        let trouble = remote.source.stores[kind].trouble().is_some()
            || remote.target.stores[kind].trouble().is_some();
        Some(if away || trouble { Left::Failed(what) } else { Left::Pending(what) })
    })
}

/// A pair that is not in step, and not held for people.
fn pairs(remote: &RemoteSync) -> Option<Left> {
    let depth = remote.queue.depth();
    if depth.queued + depth.parked + depth.running > 0 {
        return Some(Left::Pending(format!("pairs of {} are in the queue", remote.name)));
    }
    let first = |states: &[PairState]| {
        let found = remote.first_in(states);
        found.map(|(pair, condition)| {
            format!("{} ({}): {}", pair.key, remote.name, condition.reason)
        })
    };
    if depth.failing > 0 {
        let why = first(&[PairState::Degraded, PairState::Failing]);
        return Some(Left::Failed(why.unwrap_or_else(|| format!("a pair of {}", remote.name))));
    }
    first(&[PairState::TooLarge])
        .map(Left::Failed)
        .or_else(|| first(&[PairState::Waiting]).map(Left::Waiting))
}
