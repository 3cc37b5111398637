//! Outcome of an attempt: reported when it changes, and turned into the time of the next attempt.

use apiclient::{error::Error, event::EventRecord, lock::lock, workqueue::ReconcileResult};
use log::Level;

use crate::{
    cache::{RetryClass, backoff, classify, requested_delay},
    model::annotations::Uid,
    sync::{
        memory::PairMemory,
        observed::{Attempt, Observed},
        pair::{PairContext, log_pair},
        status::{PairCondition, PairState, Reason},
    },
};

/// Failures in a row from which on a conflict is one, too: another writer would have to be faster each time.
const MAX_STALE: u32 = 3;
/// From which on a person should know, after some ten seconds of them: probably no writer is faster, but the server, or
/// a webhook, refuses the write in the words of a conflict.
const REFUSING_STALE: u32 = 12;

/// There is nothing more to do for now, except for an upload that failed.
pub(crate) fn finished(
    pair: &PairContext<'_>,
    observed: &Observed,
    reason: Option<Reason>,
    attempt: &Attempt,
    failed_upload: Option<Error>,
) -> ReconcileResult {
    // What waits counts against the limit.
    if !reason.is_some_and(Reason::is_of_limit) {
        lock(&pair.remote.deletions).forget(pair.id);
    }
    if observed.source.is_none() && observed.target.is_none() {
        pair.remote.memory().update(pair.id, PairMemory::forget_objects);
    }
    let altered = attempt.altered.clone().filter(|_| reason.is_none());
    let error = altered.map(|(_, sentence)| Error::Invalid(sentence)).or(failed_upload);
    match error {
        Some(error) => failed(pair, &error),
        None => {
            report(pair, observed, reason.map(Reason::condition));
            let grace = pair.context.settings.orphans.grace;
            reason.map_or(ReconcileResult::Done, |reason| reason.requeue(grace))
        }
    }
}

/// An action failed; if it was based on an older state, both objects are read before the next attempt.
pub(crate) fn failed(pair: &PairContext<'_>, error: &Error) -> ReconcileResult {
    let class = classify(error);
    if pair.observe().source.is_some_and(|source| !source.value.state.terminating) {
        lock(&pair.remote.deletions).forget(pair.id);
    }
    let (failures, is_conflict) = (pair.item.failures, class == RetryClass::Stale);
    let class = match class {
        RetryClass::Stale if pair.refresh().is_err() || failures + 1 >= MAX_STALE => {
            RetryClass::Transient
        }
        class => class,
    };
    if class == RetryClass::Stale {
        log_pair!(Level::Debug, pair, "outdated, both objects were read again", error = error);
    } else {
        let refused = class == RetryClass::Refused || is_conflict && failures + 1 >= REFUSING_STALE;
        let condition = PairCondition::new(PairState::Failing, refused, &error.to_string());
        report(pair, &pair.observe(), Some(condition));
    }
    pair.remote.metrics.failed(class.name());
    // Pairs that failed together do not come back together.
    let wait = backoff(class, failures).mul_f64(0.5 + fastrand::f64() / 2.0);
    ReconcileResult::Failed(wait.max(requested_delay(error)))
}

/// The pair waits until it changes: a name is invalid, or an object costs too much memory.
pub(crate) fn blocked(pair: &PairContext<'_>, sentence: &str) -> ReconcileResult {
    lock(&pair.remote.deletions).forget(pair.id);
    let observed = pair.observe();
    let exists = observed.source.is_some() || observed.target.is_some() || pair.is_too_large();
    let condition = PairCondition::new(PairState::Failing, true, sentence);
    report(pair, &observed, Some(condition).filter(|_| exists));
    ReconcileResult::Done
}

/// Logs a changed condition; one that needs people is also recorded as an Event on the source.
fn report(pair: &PairContext<'_>, observed: &Observed, condition: Option<PairCondition>) {
    let now = condition.clone();
    if !pair.remote.memory().update(pair.id, |memory| memory.set_condition(now)) {
        return;
    }
    let Some(PairCondition { state, reason, needs_people, .. }) = condition else {
        log_pair!(Level::Info, pair, "in sync again");
        return;
    };
    let level = if needs_people { Level::Warn } else { Level::Info };
    if state == PairState::Failing {
        log_pair!(level, pair, "not in sync", state = state.as_str(), error = reason);
    } else {
        log_pair!(level, pair, "not in sync", state = state.as_str(), reason = reason);
    }
    if needs_people
        && !pair.context.settings.dry_run
        && let Some(source) = &observed.source
    {
        let event = if state == PairState::Failing { "SyncFailed" } else { "SyncHeld" };
        write_event(pair, source.uid, event, reason);
    }
}

/// Records an Event on the source that somebody should attend to.
pub(crate) fn write_event(
    pair: &PairContext<'_>,
    source: Uid,
    reason: &'static str,
    message: String,
) {
    let (about, uid) = (pair.source.at(), source.to_string());
    let (controller, note) = ("remote-sync", message);
    let event = EventRecord { controller, reason, note, warning: true };
    if let Err(error) = pair.source.ask(&|client| event.write(client, &about, Some(&uid))) {
        log_pair!(Level::Debug, pair, "Event not recorded", error = error);
    }
}
