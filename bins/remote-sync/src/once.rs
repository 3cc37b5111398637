//! Completion of `-once`: when everything is done, when waiting longer is of no use, and what is left.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use apiclient::error::{Error, Result};

use crate::{
    connection::Connection,
    controller::Controller,
    model::key,
    sync::{
        remote::RemoteSync,
        status::{PairCondition, PairState},
    },
};

/// Interval between checks. A poll, as progress is made in queues, stores and connections, most of which wake
/// nobody; a check costs microseconds.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Pairs that are named at the end.
const MOST_NAMES: usize = 20;

/// Something that is not done yet.
struct Remaining {
    what: String,
    state: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Under way.
    Pending,
    /// Failed, and being retried.
    Failed,
    /// Something else has to happen first.
    Waiting,
    /// A target without a source is in its grace period.
    Orphaned,
}

impl Progress {
    fn of(self, what: String) -> Remaining {
        Remaining { what, state: self }
    }
}

/// Waits until everything is in sync, but no longer than `limit`. Without a limit everything is tried once, and
/// whatever waits for something else gets the time of one request.
///
/// # Errors
/// `Unavailable` with the first thing that is not done.
pub(crate) fn finish(controller: &Controller, limit: Duration) -> Result<()> {
    let begun = Instant::now();
    // With less time than that it is known from the start that they stay.
    let awaits_orphans = controller.context.settings.orphans.grace <= limit;
    loop {
        let stopped = controller.stop.wait(POLL);
        let remaining = remaining(controller);
        let state = remaining.as_ref().map(|remaining| remaining.state);
        let stays = state == Some(Progress::Orphaned) && !awaits_orphans;
        let over = match state {
            None => true,
            _ if stays => true,
            _ if !limit.is_zero() => begun.elapsed() >= limit,
            Some(Progress::Pending | Progress::Orphaned) => false,
            Some(Progress::Failed) => true,
            Some(Progress::Waiting) => begun.elapsed() >= controller.context.settings.timeout,
        };
        if !stopped && !over {
            continue;
        }
        report_left(controller);
        return match remaining {
            Some(Remaining { what, .. }) if stopped => {
                Err(unfinished(format!("stopped before everything was done: {what}")))
            }
            Some(Remaining { what, .. }) if !stays => Err(unfinished(what)),
            _ => Ok(()),
        };
    }
}

/// The error that says what is not done.
pub(crate) fn unfinished(message: String) -> Error {
    Error::Unavailable { message, retry_after: None, of_object: false }
}

/// Logs the pairs that are not in sync: a task ends with them, and the next may find the same.
fn report_left(controller: &Controller) {
    for remote in controller.remotes().iter() {
        for (pair, PairCondition { state, reason, .. }) in remote.conditions(MOST_NAMES) {
            let (namespace, name) = key::split(&pair.key);
            let kind = &controller.context.settings.resources[pair.kind];
            log::warn!(
                remote:% = remote.name, kind:%, namespace, name, state = state.as_str(), reason:%;
                "left as it is"
            );
        }
        let more = remote.count_conditions().saturating_sub(MOST_NAMES);
        if more > 0 {
            log::warn!(remote:% = remote.name, count = more; "others are left as they are, too");
        }
    }
}

/// Waits for as long as it `waits`, a task's first step; `stopped` is the sentence for a signal in between.
///
/// # Errors
/// `Unavailable` if the process is stopped, or the local cluster cannot be reached.
pub(crate) fn wait_while(
    controller: &Controller,
    stopped: &str,
    waits: impl Fn() -> bool,
) -> Result<()> {
    loop {
        if controller.stop.wait(POLL) {
            return Err(unfinished(stopped.into()));
        }
        if let Some(why) = local_failure(controller) {
            return Err(unfinished(why));
        }
        if !waits() {
            return Ok(());
        }
    }
}

/// Returns whether the remotes are not known yet, and no reason why.
pub(crate) fn awaits_remotes(controller: &Controller) -> bool {
    !controller.all_known.load(Relaxed) && controller.registry_trouble().is_none()
}

/// The reason why the local cluster is not connected, once that was tried.
pub(crate) fn local_failure(controller: &Controller) -> Option<String> {
    let local = controller.local.cluster().connection.health();
    let error = || local.error.unwrap_or_default();
    (local.failures > 0).then(|| format!("the local cluster: {}", error()))
}

fn remaining(controller: &Controller) -> Option<Remaining> {
    if let Some(why) = local_failure(controller) {
        return Some(Progress::Failed.of(why));
    }
    if !controller.all_known.load(Relaxed) {
        return Some(match controller.registry_trouble() {
            Some(why) => Progress::Failed.of(format!("the remotes are not known: {why}")),
            None => Progress::Pending.of("the remotes are not known".into()),
        });
    }
    let remotes = controller.remotes();
    let closed = remotes.iter().find_map(|remote| obstacle(controller, remote));
    let secrets = &controller.context.settings.secrets;
    closed
        .or_else(|| remotes.iter().find_map(|remote| pairs(controller, remote)))
        .or_else(|| remotes.iter().find_map(|remote| parked(remote, secrets)))
        .or_else(|| remotes.iter().find_map(|remote| orphaned(remote)))
}

/// Returns whether a cluster cannot be connected at present.
pub(crate) fn is_unreachable(connection: &Connection) -> bool {
    let health = connection.health();
    health.failures > 0 || health.error.is_some()
}

/// The obstacle that prevents a whole kind from being reconciled.
fn obstacle(controller: &Controller, remote: &RemoteSync) -> Option<Remaining> {
    let unreachable = is_unreachable(&controller.remote_cluster(remote).connection);
    let mut kinds = controller.context.settings.resources.iter();
    kinds.find_map(|(kind, wanted)| {
        let what = format!("{wanted} ({}): {}", remote.name, remote.obstacle(kind)?);
        let trouble = remote.source.stores[kind].trouble().is_some()
            || remote.target.stores[kind].trouble().is_some();
        let failed = unreachable || trouble;
        Some(if failed { Progress::Failed } else { Progress::Pending }.of(what))
    })
}

/// A pair that is not in sync, and not held for a person.
fn pairs(controller: &Controller, remote: &RemoteSync) -> Option<Remaining> {
    let depth = remote.queue.depth();
    if remote.awaits_enqueuing(&controller.context.reader.digester) {
        return Some(Progress::Pending.of(format!("pairs of {} are not queued yet", remote.name)));
    }
    if depth.queued + depth.parked + depth.running > 0 {
        return Some(Progress::Pending.of(format!("pairs of {} are in the queue", remote.name)));
    }
    let first = |states: &[PairState]| first(remote, |condition| states.contains(&condition.state));
    if depth.failing > 0 {
        let why = first(&[PairState::Degraded, PairState::Failing]);
        return Some(
            Progress::Failed.of(why.unwrap_or_else(|| format!("a pair of {}", remote.name))),
        );
    }
    first(&[PairState::TooLarge, PairState::Degraded, PairState::Fighting])
        .map(|why| Progress::Failed.of(why))
        .or_else(|| first(&[PairState::Waiting]).map(|why| Progress::Waiting.of(why)))
}

/// The first pair in a condition, with the reason.
fn first(remote: &RemoteSync, is: impl Fn(&PairCondition) -> bool) -> Option<String> {
    let (pair, condition) = remote.first_in(is)?;
    Some(format!("{} ({}): {}", pair.key, remote.name, condition.reason))
}

/// The Secrets that cannot be listed and so were not uploaded.
fn parked(remote: &RemoteSync, names: &[String]) -> Option<Remaining> {
    let mut troubles = remote.secret_troubles().zip(names);
    let (why, name) = troubles.find_map(|(why, name)| Some((why?, name)))?;
    Some(Progress::Failed.of(format!("secrets/{name} ({}): {why}", remote.name)))
}

/// An orphan that is deleted once its grace period is over.
fn orphaned(remote: &RemoteSync) -> Option<Remaining> {
    first(remote, |condition| condition.ends).map(|why| Progress::Orphaned.of(why))
}
