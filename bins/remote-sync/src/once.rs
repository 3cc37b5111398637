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
        remote::{LISTING, RemoteSync},
        status::{PairCondition, PairState},
    },
};

/// Interval between checks. A poll, as progress is made in queues, stores and connections, most of which wake
/// nobody; a check costs microseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Pairs that are named at the end.
const MAX_NAMES: usize = 20;

/// Something that is not done, and whether it ends by itself, in sync or not.
type Left = Vec<(String, bool)>;

/// Waits until everything is in sync, but no longer than `limit`. Without a limit everything is tried once, and
/// whatever fails or waits for something else gets the time of one request.
///
/// # Errors
/// `Unavailable` with the first thing that is not done.
pub(crate) fn finish(controller: &Controller, limit: Duration) -> Result<()> {
    let (begun, settings) = (Instant::now(), &controller.context.settings);
    let longest = if limit.is_zero() { settings.timeout } else { limit };
    let awaits_orphans = settings.orphans.grace.is_some_and(|grace| grace <= limit);
    loop {
        let stopped = controller.stop.wait(POLL_INTERVAL);
        let left = left(controller, awaits_orphans);
        let moves = limit.is_zero() && left.iter().any(|(_, moves)| *moves);
        let waits = moves || begun.elapsed() < longest;
        if !left.is_empty() && waits && !stopped {
            continue;
        }
        log_pairs(controller);
        return match left.into_iter().next() {
            Some((what, _)) if stopped => {
                Err(unfinished(format!("stopped before everything was done: {what}")))
            }
            Some((what, _)) => Err(unfinished(what)),
            None => Ok(()),
        };
    }
}

/// The error that says what is not done.
pub(crate) fn unfinished(message: String) -> Error {
    Error::Unavailable { message, retry_after: None, of_object: false }
}

/// Logs the pairs that are not in sync: a task ends with them, and the next may find the same.
fn log_pairs(controller: &Controller) {
    for remote in controller.remotes().iter() {
        let memory = remote.memory();
        for (pair, PairCondition { state, reason, .. }) in memory.conditions().take(MAX_NAMES) {
            let (namespace, name) = key::split(&pair.key);
            let kind = &controller.context.settings.resources[pair.kind];
            log::warn!(
                remote:% = remote.name, kind:%, namespace, name, state = state.as_str(), reason:%;
                "ended without syncing it"
            );
        }
        let more = memory.conditions().count().saturating_sub(MAX_NAMES);
        if more > 0 {
            log::warn!(remote:% = remote.name, count = more; "more objects are not synced");
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
        if controller.stop.wait(POLL_INTERVAL) {
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
fn local_failure(controller: &Controller) -> Option<String> {
    let local = controller.local.cluster();
    local.fails().then(|| format!("the local cluster: {}", local.error().unwrap_or_default()))
}

/// Returns whether a cluster cannot be connected at present.
pub(crate) fn is_unreachable(connection: &Connection) -> bool {
    connection.fails() || connection.error().is_some()
}

/// What has failed, is under way, or waits for something other than a person.
fn left(controller: &Controller, awaits_orphans: bool) -> Left {
    if let Some(why) = local_failure(controller) {
        return vec![(why, false)];
    }
    if !controller.all_known.load(Relaxed) {
        let why = controller.registry_trouble();
        let moves = why.is_none();
        return vec![(format!("the remotes are not known: {}", why.unwrap_or_default()), moves)];
    }
    let remotes = controller.remotes();
    remotes.iter().flat_map(|remote| left_of(controller, remote, awaits_orphans)).collect()
}

/// What is left of one remote.
fn left_of(controller: &Controller, remote: &RemoteSync, awaits_orphans: bool) -> Left {
    let (settings, name) = (&controller.context.settings, &remote.name);
    let mut left = Left::new();
    // Kinds whose pairs cannot be reconciled at present.
    let unreachable = is_unreachable(&remote.cluster);
    let connecting = !remote.clusters().iter().all(|it| it.is_connected());
    for (kind, wanted) in settings.resources.iter() {
        if let Some(why) = remote.obstacle(kind) {
            let moves = !unreachable && (connecting || why == LISTING);
            left.push((format!("{wanted} ({name}): {why}"), moves));
        }
    }
    let open = left.is_empty();
    // Before the conditions: an attempt that ends after this has left its own.
    let (enqueues, depth) = (remote.awaits_enqueuing(), remote.queue.depth());
    // Pairs that are not in sync, and not held for a person.
    let remains = |condition: &PairCondition| match condition.state {
        PairState::Paused | PairState::Held | PairState::Conflict => {
            condition.ends && awaits_orphans
        }
        _ => true,
    };
    let first = remote.memory().conditions().find(|(_, it)| remains(it)).map(|(pair, it)| {
        let text = format!("{} ({name}): {}", pair.key, it.reason);
        (text, false)
    });
    left.extend(first);
    if depth.failing > 0 {
        left.push((format!("a pair of {name} is retried"), false));
    }
    // Secrets that cannot be listed and so were not uploaded.
    let troubles = remote.secret_troubles(&settings.secrets);
    let troubles = troubles.filter_map(|(secrets, why)| Some((secrets, why?)));
    left.extend(troubles.map(|(secrets, why)| (format!("{secrets} ({name}): {why}"), false)));
    if open && (enqueues || depth.parked > 0) || depth.queued + depth.running > 0 {
        left.push((format!("pairs of {name} are in the queue"), true));
    }
    left
}
