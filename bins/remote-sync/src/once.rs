//! Completion of `-once`: when all is done, when to stop waiting, and what is left.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use apiclient::error::{Error, Result};

use crate::{
    controller::Controller,
    model::key,
    sync::{
        remote::{LISTING, RemoteSync},
        status::{PairCondition, PairState},
    },
};

/// The polling interval: most progress in queues, stores and connections sends no signal, and a check takes
/// microseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

const MAX_NAMES: usize = 20;

/// Unfinished work, and whether it is in progress.
type Left = (String, bool);

/// Waits until everything is in sync, for at most `limit`. If `limit` is 0, waits as long as anything is in progress,
/// and at least for the time-out of a request.
pub(crate) fn finish(controller: &Controller, limit: Duration) -> Result<()> {
    let (begun, settings) = (Instant::now(), &controller.context.settings);
    let longest = if limit.is_zero() { settings.timeout } else { limit };
    let awaits_orphans = settings.orphans.grace.is_some_and(|grace| grace <= limit);
    loop {
        let stopped = controller.stop.wait(POLL_INTERVAL);
        let left = left(controller, awaits_orphans);
        let moves = limit.is_zero() && left.iter().any(|(_, moves)| *moves);
        if !left.is_empty() && !stopped && (moves || begun.elapsed() < longest) {
            continue;
        }
        log_pairs(controller);
        return match left.into_iter().next() {
            Some((what, _)) => Err(unfinished(what)),
            None => Ok(()),
        };
    }
}

pub(crate) fn unfinished(message: String) -> Error {
    Error::Unavailable { message, retry_after: None, of_object: false }
}

/// Waits until all remotes are known and `ready`, for at most the time-out of a request. The task then reports those
/// that are not.
pub(crate) fn wait_for_remotes(
    controller: &Controller,
    ready: impl Fn(&RemoteSync) -> bool,
) -> Result<()> {
    let (begun, longest) = (Instant::now(), controller.context.settings.timeout);
    let is_ready =
        || controller.all_known.load(Relaxed) && controller.remotes().iter().all(|it| ready(it));
    while !is_ready() && begun.elapsed() < longest {
        if controller.stop.wait(POLL_INTERVAL) {
            return Err(unfinished("stopped before anything was done".into()));
        }
    }
    Ok(())
}

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
    }
}

fn left(controller: &Controller, awaits_orphans: bool) -> Vec<Left> {
    if !controller.all_known.load(Relaxed) {
        let why = controller.registry_trouble().unwrap_or_default();
        return vec![(format!("the remotes are not known: {why}"), false)];
    }
    let remotes = controller.remotes();
    remotes.iter().flat_map(|remote| left_of(controller, remote, awaits_orphans)).collect()
}

fn left_of(controller: &Controller, remote: &RemoteSync, awaits_orphans: bool) -> Vec<Left> {
    let (settings, name) = (&controller.context.settings, &remote.name);
    let mut kinds = 0..settings.resources.len();
    let mut left: Vec<_> = settings
        .resources
        .iter()
        .enumerate()
        .filter_map(|(kind, wanted)| {
            let why = remote.obstacle(kind)?;
            Some((format!("{wanted} ({name}): {why}"), why == LISTING))
        })
        .collect();
    let open = left.is_empty();
    // Read before the conditions: an attempt that ended by now has set its condition.
    let (opens, depth) =
        (kinds.any(|kind| remote.open_kinds(kind).is_none()), remote.queue.depth());
    // Pairs that are not in sync, and are not held until a person acts.
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
    // Secrets that were not uploaded, because they cannot be listed.
    for (secrets, why) in remote.secret_troubles() {
        left.extend(why.map(|why| (format!("{secrets} ({name}): {why}"), false)));
    }
    if depth.failing > 0 {
        left.push((format!("a pair of {name} is retried"), false));
    }
    if open && (opens || depth.parked > 0) || depth.queued + depth.running > 0 {
        left.push((format!("pairs of {name} are in the queue"), true));
    }
    left
}
