//! Completion of `-once`: when everything is done, when waiting longer is of no use, and what is left.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use apiclient::error::{Error, Result};

use crate::{
    connection::Connection,
    controller::Controller,
    model::key::{self, KindIndex, Pair},
    sync::{
        remote::RemoteSync,
        status::{PairCondition, PairState},
    },
};

/// Interval between checks. A poll, as progress is made in queues, stores and connections, most of which wake
/// nobody; a check costs microseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Pairs that are named at the end.
const MAX_NAMES: usize = 20;

/// Waits until everything is in sync, but no longer than `limit`. Without a limit everything is tried once, and
/// whatever fails or waits for something else gets the time of one request.
///
/// # Errors
/// `Unavailable` with the first thing that is not done.
pub(crate) fn finish(controller: &Controller, limit: Duration) -> Result<()> {
    let (begun, settings) = (Instant::now(), &controller.context.settings);
    let longest = if limit.is_zero() { settings.timeout } else { limit };
    let awaits_orphans = settings.orphans.grace <= limit;
    loop {
        let stopped = controller.stop.wait(POLL_INTERVAL);
        let pending = pending(controller);
        let waits = limit.is_zero() && pending.is_some() || begun.elapsed() < longest;
        let left = remaining(controller, awaits_orphans).or(pending);
        if left.is_some() && waits && !stopped {
            continue;
        }
        report_left(controller);
        return match left {
            Some(what) if stopped => {
                Err(unfinished(format!("stopped before everything was done: {what}")))
            }
            Some(what) => Err(unfinished(what)),
            None => Ok(()),
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
    let local = &controller.local.cluster().connection;
    local.fails().then(|| format!("the local cluster: {}", local.error().unwrap_or_default()))
}

/// Returns whether a cluster cannot be connected at present.
pub(crate) fn is_unreachable(connection: &Connection) -> bool {
    connection.fails() || connection.error().is_some()
}

/// The first thing that is under way: it ends by itself, in sync or not.
fn pending(controller: &Controller) -> Option<String> {
    if local_failure(controller).is_some() {
        return None;
    }
    if awaits_remotes(controller) {
        return Some("the remotes are not known".into());
    }
    controller.remotes().iter().find_map(|remote| pending_of(controller, remote))
}

fn pending_of(controller: &Controller, remote: &RemoteSync) -> Option<String> {
    let unreachable = is_unreachable(&controller.remote_cluster(remote).connection);
    let depth = remote.queue.depth();
    let mut obstacles = obstacles(controller, remote).peekable();
    let waits = remote.awaits_enqueuing(&controller.context.reader.digester) || depth.parked > 0;
    let moves = obstacles.peek().is_none() && waits || depth.queued + depth.running > 0;
    let is_connecting = !remote.clusters().iter().all(|it| it.connection.is_connected());
    let listing =
        obstacles.find(|(kind, _)| !unreachable && (is_connecting || remote.is_listing(*kind)));
    let queued = || moves.then(|| format!("pairs of {} are in the queue", remote.name));
    listing.map(|(_, what)| what).or_else(queued)
}

/// The kinds of which no pair can be reconciled at present, with the reason.
fn obstacles<'a>(
    controller: &'a Controller,
    remote: &'a RemoteSync,
) -> impl Iterator<Item = (KindIndex, String)> {
    let kinds = controller.context.settings.resources.iter();
    kinds.filter_map(|(kind, wanted)| {
        Some((kind, format!("{wanted} ({}): {}", remote.name, remote.obstacle(kind)?)))
    })
}

/// The first thing that failed, or waits for something other than a person.
fn remaining(controller: &Controller, awaits_orphans: bool) -> Option<String> {
    if let Some(why) = local_failure(controller) {
        return Some(why);
    }
    if !controller.all_known.load(Relaxed) {
        let why = controller.registry_trouble().unwrap_or_default();
        return Some(format!("the remotes are not known: {why}"));
    }
    let (remotes, secrets) = (controller.remotes(), &controller.context.settings.secrets);
    let obstacle = |remote: &RemoteSync| obstacles(controller, remote).next().map(|(_, what)| what);
    let first = |of: &dyn Fn(&RemoteSync) -> Option<String>| remotes.iter().find_map(|it| of(it));
    first(&obstacle)
        .or_else(|| first(&|remote| pair(remote, awaits_orphans)))
        .or_else(|| first(&|remote| parked(remote, secrets)))
}

/// A pair that is not in sync, and not held for a person.
fn pair(remote: &RemoteSync, awaits_orphans: bool) -> Option<String> {
    let remains = |condition: &PairCondition| match condition.state {
        PairState::Paused | PairState::Held | PairState::Conflict => {
            condition.ends && awaits_orphans
        }
        _ => true,
    };
    let failing = || {
        let failing = remote.queue.depth().failing > 0;
        failing.then(|| format!("a pair of {} is retried", remote.name))
    };
    let memory = remote.memory();
    let found = memory.conditions().find(|(_, condition)| remains(condition));
    let what = |(pair, condition): (&Pair, &PairCondition)| {
        format!("{} ({}): {}", pair.key, remote.name, condition.reason)
    };
    found.map(what).or_else(failing)
}

/// The Secrets that cannot be listed and so were not uploaded.
fn parked(remote: &RemoteSync, names: &[String]) -> Option<String> {
    let (why, name) =
        remote.secret_troubles().zip(names).find_map(|(why, name)| Some((why?, name)))?;
    Some(format!("secrets/{name} ({}): {why}", remote.name))
}
