//! Outcome of an attempt: reported when it changes, and turned into the time of the next attempt.

use std::time::{Duration, Instant};

use apiclient::{client::USUAL_OBJECT, error::Error, event::CoreEvent, lock::lock};
use log::Level;

use crate::{
    cache::retry::{RetryClass, classify, requested_delay},
    model::annotations::Uid,
    sync::{
        gate::GateHold,
        memory::PairMemory,
        observed::{Attempt, Observed},
        pair::{PairContext, log_pair},
        status::{Hold, PairCondition, PairState, PairStatus},
        workqueue::ReconcileResult,
    },
};

/// A deletion that takes longer is probably blocked by a finalizer, which a person should know.
const LONGEST_DELETION: Duration = Duration::from_secs(600);
/// The wait before a held pair is reconciled again, in case an event was missed.
const CHECK_HELD: Duration = Duration::from_secs(300);

/// The wait before a waiting pair is reconciled again, without a request: where pairs share a namespace,
/// another pair may have found what the event would have brought.
const CHECK_WAITING: Duration = Duration::from_secs(5);

/// Outdated attempts in a row from which on they are failures: another writer would have to be faster each time.
const LASTING: u32 = 3;
/// From which on a person should know, after some ten seconds of them: probably no writer is faster, but the server, or
/// a webhook, refuses the write in the words of a conflict.
const REFUSING: u32 = 12;

/// The attempt succeeded: there is nothing more to do for now.
pub(crate) fn finished(
    pair: &PairContext<'_>,
    observed: &Observed,
    status: PairStatus,
    attempt: &Attempt,
    failed_secrets: &[Error],
) -> ReconcileResult {
    // What waits counts against the limit.
    if !matches!(status, PairStatus::Held(Hold::GracePeriod(_) | Hold::Gate(_))) {
        lock(&pair.remote.gate).forget(pair.id);
    }
    pair.drop_documents();
    if observed.source.is_none() && observed.target.is_none() {
        pair.remote.remember(pair.id, PairMemory::forget_writes);
        pair.remote.set_secrets_checked(pair.id, false);
    }
    if let Some(error) = failed_secrets.first() {
        return failed(pair, error);
    }
    pair.remote.count_stale(pair.id, false);
    let waited = pair.remote.waited(pair.id, status.awaits_deletion(), Instant::now());
    let status =
        if waited >= LONGEST_DELETION { PairStatus::Held(Hold::DeletionStuck) } else { status };
    let conflict = attempt.secret_condition.clone().filter(|_| status == PairStatus::InSync);
    if conflict.is_some() {
        report(pair, observed, conflict, true);
        return ReconcileResult::RequeueAfter(CHECK_HELD);
    }
    if status == PairStatus::InSync && !attempt.secrets_tried.is_empty() {
        pair.remote.set_secrets_checked(pair.id, true);
    }
    let altered = (status == PairStatus::Altered).then(|| pair.remote.recall(pair.id).altered);
    let condition = match altered.flatten() {
        Some(sentence) => Some(PairCondition::new(PairState::Degraded, &sentence)),
        None => status.condition(),
    };
    report(pair, observed, condition, status.needs_people());
    requeue(status, pair.context.settings.orphans.grace)
}

/// The next attempt for a pair with this status; `grace` is that of orphans.
fn requeue(status: PairStatus, grace: Duration) -> ReconcileResult {
    match status {
        PairStatus::Held(Hold::GracePeriod(left) | Hold::Gate(GateHold::NextToken(left)))
        | PairStatus::Fighting(left) => ReconcileResult::RequeueAfter(left),
        PairStatus::Held(Hold::Gate(_)) => {
            ReconcileResult::RequeueAfter(grace.clamp(Duration::from_secs(1), CHECK_HELD))
        }
        PairStatus::Held(Hold::DeletionStuck) | PairStatus::Waiting(_) => {
            ReconcileResult::RequeueAfter(CHECK_WAITING)
        }
        PairStatus::Held(_) => ReconcileResult::RequeueAfter(CHECK_HELD),
        _ => ReconcileResult::Done,
    }
}

/// An action failed; if it was based on an older state, both objects are read before the next attempt.
pub(crate) fn failed(pair: &PairContext<'_>, error: &Error) -> ReconcileResult {
    let (class, now) = (classify(error), Instant::now());
    if pair.observe(now).source.is_some_and(|source| !source.value.state.terminating) {
        lock(&pair.remote.gate).forget(pair.id);
    }
    let outdated = pair.remote.count_stale(pair.id, class == RetryClass::Stale);
    let class = match class {
        RetryClass::Stale if pair.refresh().is_err() || outdated >= LASTING => {
            RetryClass::Transient
        }
        class => class,
    };
    if class == RetryClass::Stale {
        log_pair!(Level::Debug, pair, "outdated, both objects were read again", error = error);
    } else {
        let refused = class.needs_people() || outdated >= REFUSING;
        let state = if refused { PairState::Degraded } else { PairState::Failing };
        let condition = PairCondition::new(state, &error.to_string());
        report(pair, &pair.observe(Instant::now()), Some(condition), refused);
    }
    pair.context.metrics.failed(&pair.remote.name, class.name());
    ReconcileResult::Failed(class, requested_delay(error))
}

/// The names are invalid: only another name can fix that.
pub(crate) fn invalid_names(pair: &PairContext<'_>, sentence: String) -> ReconcileResult {
    forget(pair);
    let observed = pair.observe(Instant::now());
    let exists = observed.source.is_some() || observed.target.is_some();
    report(
        pair,
        &observed,
        exists.then(|| PairCondition::new(PairState::Degraded, &sentence)),
        true,
    );
    ReconcileResult::Done
}

/// An object costs too much memory: the pair is left alone until it changes.
pub(crate) fn too_large(pair: &PairContext<'_>, which: &str) -> ReconcileResult {
    forget(pair);
    let reason = format!("{which} needs more than {} KiB of memory", USUAL_OBJECT >> 10);
    let condition = PairCondition::new(PairState::TooLarge, &reason);
    report(pair, &pair.observe(Instant::now()), Some(condition), true);
    ReconcileResult::Done
}

/// Forgets what earlier attempts found out.
fn forget(pair: &PairContext<'_>) {
    lock(&pair.remote.gate).forget(pair.id);
    pair.drop_documents();
}

/// Logs a changed condition; with `people` also records an Event on the source.
fn report(
    pair: &PairContext<'_>,
    observed: &Observed,
    condition: Option<PairCondition>,
    people: bool,
) {
    if !pair.remote.set_condition(pair.id, condition.clone()) {
        return;
    }
    let Some(condition) = condition else {
        log_pair!(Level::Info, pair, "in sync again");
        return;
    };
    log_condition(pair, &condition, if people { Level::Warn } else { Level::Info });
    if people
        && !pair.context.settings.dry_run
        && let Some(source) = &observed.source
    {
        let reason = match condition.state {
            PairState::Degraded => "SyncFailed",
            PairState::Fighting => "Fighting",
            _ => "SyncHeld",
        };
        write_event(pair, source.uid, reason, condition.reason);
    }
}

fn log_condition(pair: &PairContext<'_>, condition: &PairCondition, level: Level) {
    let PairCondition { state, reason, .. } = condition;
    match state {
        PairState::Degraded | PairState::Failing => {
            log_pair!(level, pair, "not in sync", state = state.as_str(), error = reason);
        }
        _ => log_pair!(level, pair, "not in sync", state = state.as_str(), reason = reason),
    }
}

/// Records an Event on the source that somebody should attend to.
pub(crate) fn write_event(
    pair: &PairContext<'_>,
    source: Uid,
    reason: &'static str,
    message: String,
) {
    let (about, uid) = (pair.at_source(), source.to_string());
    let event = CoreEvent { source: "remote-sync", reason, message, warning: true };
    if let Err(error) = pair.ask_source(&|client| event.write(client, &about, Some(&uid))) {
        log_pair!(Level::Debug, pair, "Event not recorded", error = error);
    }
}
