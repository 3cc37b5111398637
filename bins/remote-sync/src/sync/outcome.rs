//! The outcome of an attempt: reported once, and turned into the time of the next one.

use std::time::Duration;

use serde_json::json;
use shared::{
    client::USUAL_OBJECT,
    error::{Error, Result},
    event::CoreEvent,
    lock::lock,
};

use crate::{
    cache::retry::{RetryClass, classify, requested_delay},
    model::annotations::Uid,
    sync::{
        observed::{Attempt, Observed, SettledDiff},
        pair::PairContext,
        status::{Hold, PairCondition, PairState, PairStatus},
        workqueue::ReconcileResult,
    },
};

/// What is being deleted for longer is held up by finalizers of others, and people should know.
const HELD_UP: Duration = Duration::from_secs(600);
/// What is held for people is looked at again after this: an event may be missed.
const LOOK_AGAIN: Duration = Duration::from_secs(300);

/// What waits for an event is looked at again after this, without a request: where pairs share a namespace,
/// another one may have found out what the event would have told.
const WAIT_AGAIN: Duration = Duration::from_secs(5);

/// The pass is over, with nothing more to do about the pair for now.
pub(crate) fn finished(
    pair: &PairContext<'_>,
    observed: &Observed,
    status: PairStatus,
    attempt: &Attempt,
    troubles: &[Error],
) -> ReconcileResult {
    let orphaned = matches!(status, PairStatus::Held(Hold::GracePeriod(_) | Hold::TooManyOrphans));
    if !orphaned {
        lock(&pair.remote.orphans).forget(pair.id);
    }
    pair.drop_documents();
    if observed.source.is_some() || attempt.source_gone || attempt.unselected.is_some() {
        pair.remote.set_unlisted(pair.id, false);
    }
    if observed.source.is_none() && observed.target.is_none() {
        pair.remote.set_settled(pair.id, SettledDiff::default());
    }
    if let Some(error) = troubles.first() {
        return failed(pair, error);
    }
    let waited = pair.remote.waited(pair.id, matches!(status, PairStatus::Waiting(_)));
    let status = if waited >= HELD_UP { PairStatus::Held(Hold::DeletionStuck) } else { status };
    report(pair, observed, status.condition(), status.needs_people());
    requeue(status, pair.context.settings.orphans.grace)
}

/// When a pair that stands so is looked at again; `grace` is that of orphans.
fn requeue(status: PairStatus, grace: Duration) -> ReconcileResult {
    match status {
        PairStatus::Again => ReconcileResult::RequeueAfter(Duration::ZERO),
        PairStatus::Held(Hold::GracePeriod(left)) => ReconcileResult::RequeueAfter(left),
        PairStatus::Held(Hold::TooManyOrphans) => {
            ReconcileResult::RequeueAfter(grace.clamp(Duration::from_secs(1), LOOK_AGAIN))
        }
        PairStatus::Held(Hold::DeletionStuck) | PairStatus::Waiting(_) => {
            ReconcileResult::RequeueAfter(WAIT_AGAIN)
        }
        PairStatus::Held(_) => ReconcileResult::RequeueAfter(LOOK_AGAIN),
        _ => ReconcileResult::Done,
    }
}

/// An action failed; what it found out meanwhile is looked at before the next try.
pub(crate) fn failed(pair: &PairContext<'_>, error: &Error) -> ReconcileResult {
    let class = classify(error);
    let class = match class {
        RetryClass::Stale => match pair.refresh() {
            Ok(()) => RetryClass::Stale,
            Err(_) => RetryClass::Transient,
        },
        class => class,
    };
    let state = if class == RetryClass::Refused { PairState::Degraded } else { PairState::Failing };
    match class {
        RetryClass::Stale => log::debug!("{pair}: {error}; reading it again"),
        _ => {
            let condition = PairCondition::new(state, &error.to_string());
            report(pair, &pair.observe(), Some(condition), class == RetryClass::Refused);
        }
    }
    pair.context.metrics.failed(&pair.remote.name, class.name());
    ReconcileResult::Failed(class, requested_delay(error))
}

/// Names that no object can have: nothing but another name mends that.
pub(crate) fn invalid_names(pair: &PairContext<'_>, sentence: String) -> ReconcileResult {
    let_go(pair);
    let observed = pair.observe();
    let there = observed.source.is_some() || observed.target.is_some();
    report(
        pair,
        &observed,
        there.then(|| PairCondition::new(PairState::Degraded, &sentence)),
        true,
    );
    ReconcileResult::Done
}

/// An object that costs too much memory: nothing is done about the pair until it changes.
pub(crate) fn too_large(pair: &PairContext<'_>, which: &str) -> ReconcileResult {
    let_go(pair);
    let reason = format!("{which} needs more than {} KiB of memory", USUAL_OBJECT >> 10);
    report(pair, &pair.observe(), Some(PairCondition::new(PairState::TooLarge, &reason)), true);
    ReconcileResult::Done
}

/// Nothing of what was found out about the pair counts when it is looked at again.
fn let_go(pair: &PairContext<'_>) {
    lock(&pair.remote.orphans).forget(pair.id);
    pair.drop_documents();
}

/// Logs what is new, and with `people` writes it on the source as an Event.
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
        log::info!("{pair}: in sync again");
        return;
    };
    if !people {
        log::info!("{pair}: {}: {}", condition.state.as_str(), condition.reason);
        return;
    }
    log::warn!("{pair}: {}: {}", condition.state.as_str(), condition.reason);
    if !pair.context.settings.dry_run
        && let Some(source) = &observed.source
    {
        write_event(pair, source.uid, condition);
    }
}

fn write_event(pair: &PairContext<'_>, source: Uid, condition: PairCondition) {
    let resource = &pair.kinds.source.resource;
    let about = json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind,
        "namespace": pair.source.0,
        "name": pair.source.1,
        "uid": source.to_string(),
    });
    let namespace = if pair.source.0.is_empty() { "default" } else { &pair.source.0 };
    let event = CoreEvent {
        source: "remote-sync",
        reason: if condition.state == PairState::Degraded { "SyncFailed" } else { "SyncHeld" },
        message: condition.reason,
        warning: true,
    };
    let written: Result<()> = pair.ask_source(|client| event.write(client, namespace, &about));
    if let Err(error) = written {
        log::debug!("{error}");
    }
}
