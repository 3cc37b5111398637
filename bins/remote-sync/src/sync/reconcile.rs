//! Reconciler: observes, decides and applies until a pair needs nothing more. Reports the outcome if it changed, and
//! returns the time of the next attempt.

use std::{
    sync::MutexGuard,
    time::{Duration, Instant},
};

use apiclient::{error::Error, lock::lock, workqueue::ReconcileResult};
use log::Level;

use crate::{
    cache::{MAX_PAUSE, RetryClass, backoff, classify},
    sync::{
        SyncContext,
        decide::{self, SyncAction},
        memory::PairMemory,
        observed::{Attempt, Observed, SyncRules},
        pair::{PairContext, log_pair},
        remote::RemoteSync,
        status::{Next, PairCondition, PairState, Reason},
    },
};

/// The most actions of an attempt, besides Secrets: more mean that another writer undoes them.
const MAX_ACTIONS: usize = 16;
/// After this many consecutive conflicts, they count as failures: another writer is unlikely to win each time.
const MAX_STALE: u32 = 3;
/// After this many consecutive conflicts, about ten seconds, a person must know: the server or a webhook probably
/// reports a refusal as a conflict.
const REFUSING_STALE: u32 = 12;

/// Reconciles pairs of `remote` until the queue ends this worker. Before each pair, calls `start_workers`: one worker
/// may not be enough.
pub(crate) fn run_worker(context: &SyncContext, remote: &RemoteSync, start_workers: &dyn Fn()) {
    while let Some(item) = remote.queue.get() {
        start_workers();
        let result = match remote.open_kinds(item.key.kind) {
            Some(kinds) => reconcile(PairContext::new(context, remote, &item, kinds)),
            None => ReconcileResult::Park,
        };
        remote.queue.done(&item, result);
    }
}

/// Attempts to reconcile a pair; a dry run ends at the first write.
fn reconcile(pair: PairContext<'_>) -> ReconcileResult {
    if let Some(sentence) = pair.blocked() {
        return blocked(&pair, &sentence);
    }
    if !pair.item.large && pair.is_large() {
        return ReconcileResult::RequeueAsLarge;
    }
    let (rules, attempt) = (pair.rules(), Attempt::default());
    Reconciler { pair, rules, attempt, failed_upload: None, upload_wait: None, large: None }.run()
}

struct Reconciler<'a> {
    pair: PairContext<'a>,
    rules: SyncRules,
    attempt: Attempt,
    /// The error of the first upload that failed.
    failed_upload: Option<Error>,
    /// The time until the status may be uploaded again.
    upload_wait: Option<Duration>,
    /// Held during a large pair: the process reconciles one at a time.
    large: Option<MutexGuard<'a, ()>>,
}

impl<'a> Reconciler<'a> {
    fn run(mut self) -> ReconcileResult {
        let mut begun = false;
        for _ in 0..MAX_ACTIONS + self.pair.context.settings.secrets.len() {
            let observed = self.pair.observe();
            self.attempt.check_proof(&observed);
            let action = decide::next_action(&observed, &self.attempt, &self.rules);
            if let SyncAction::Done(reason) = action {
                return self.end(&observed, reason);
            }
            if !begun {
                begun = true;
                if !self.begin() {
                    return ReconcileResult::Done;
                }
                // During the wait, the next action may have changed.
                continue;
            }
            match self.wait(action, &observed) {
                None => {}
                Some(wait) if action == SyncAction::UploadStatus => {
                    (self.attempt.status_tried, self.upload_wait) = (true, Some(wait));
                    continue;
                }
                // A failure, as the pair is not in sync: `-once` must not end here.
                Some(wait) => return ReconcileResult::Failed(wait),
            }
            match self.pair.apply(action, &observed, &mut self.attempt) {
                Ok(Next::Continue(())) => {}
                Ok(Next::Break(reason)) => return self.end(&observed, Some(reason)),
                // The object has grown, or its size was unknown.
                Err(Error::TooLarge(_)) if !self.pair.item.large => {
                    return ReconcileResult::RequeueAsLarge;
                }
                Err(error) if is_skipped(action, &error) => {
                    self.attempt.status_tried |= action == SyncAction::UploadStatus;
                    self.failed_upload.get_or_insert(error);
                }
                Err(error) => return failed(&self.pair, &error),
            }
        }
        let message =
            "gave up after repeated conflicts: another writer keeps updating it".to_owned();
        let error = Error::Unavailable { message, retry_after: None, of_object: true };
        failed(&self.pair, &error)
    }

    /// Waits for the rate limiters, unless in a dry run, and then for the turn of a large pair; `false` after `stop`.
    fn begin(&mut self) -> bool {
        let context: &'a SyncContext = self.pair.context;
        if !context.settings.dry_run && !self.pair.begin() {
            return false;
        }
        self.large = self.pair.item.large.then(|| lock(&context.large));
        !self.pair.remote.stop.raised()
    }

    /// The time until a write may be repeated that another writer keeps undoing.
    fn wait(&self, action: SyncAction, observed: &Observed) -> Option<Duration> {
        let (source, target) = (observed.source.as_ref(), observed.target.as_ref());
        let (memory, now) = (self.pair.remote.memory(), Instant::now());
        let memory = memory.get(self.pair.id)?;
        let wait = match action {
            SyncAction::UploadStatus => memory.uploaded.wait(target?.value.state.status, now),
            SyncAction::Create | SyncAction::Update { .. } => {
                memory.updated.wait(source?.value.state.written(), now)
            }
            _ => return None,
        };
        Some(wait).filter(|wait| !wait.is_zero())
    }

    /// Ends the attempt: nothing is left to do now, except for an upload that failed or must wait.
    fn end(&self, observed: &Observed, reason: Option<Reason>) -> ReconcileResult {
        let Self { pair, attempt, .. } = self;
        // Waiting deletions count against the limit.
        if !reason.is_some_and(Reason::is_of_limit) {
            lock(&pair.remote.deletions).forget(pair.id);
        }
        if observed.source.is_none() && observed.target.is_none() {
            pair.remote.memory().update(pair.id, PairMemory::forget_objects);
        }
        let altered = attempt.altered.clone().filter(|_| reason.is_none());
        let altered = altered.map(|(_, sentence)| Error::Invalid(sentence));
        if let Some(error) = altered.as_ref().or(self.failed_upload.as_ref()) {
            return failed(pair, error);
        }
        report(pair, observed, reason.map(Reason::condition));
        match (self.upload_wait, reason) {
            // A pending upload is not in sync: `-once` must not end here.
            (Some(wait), _) => ReconcileResult::Failed(wait),
            (None, Some(reason)) => reason.requeue(pair.context.settings.orphans.grace),
            (None, None) => ReconcileResult::Done,
        }
    }
}

/// Returns whether the attempt continues after this failure. A Secret that cannot be written blocks neither the other
/// Secrets nor the spec. Nor does a status that is no longer served, until discovery notices.
fn is_skipped(action: SyncAction, error: &Error) -> bool {
    match action {
        SyncAction::SyncSecret(_) => classify(error) != RetryClass::Down,
        SyncAction::UploadStatus => matches!(error, Error::NotServed(_)),
        _ => false,
    }
}

/// Handles a failed action. If it was based on an outdated state, reads both objects before the next attempt.
fn failed(pair: &PairContext<'_>, error: &Error) -> ReconcileResult {
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
    // Jitter: pairs that failed together must not return together.
    let wait = backoff(class, failures).mul_f64(0.5 + fastrand::f64() / 2.0);
    ReconcileResult::Failed(wait.max(error.retry_after().unwrap_or_default().min(MAX_PAUSE)))
}

/// Reports a pair that waits until it changes: a name is invalid, or an object needs too much memory.
fn blocked(pair: &PairContext<'_>, sentence: &str) -> ReconcileResult {
    lock(&pair.remote.deletions).forget(pair.id);
    let observed = pair.observe();
    let exists = observed.source.is_some() || observed.target.is_some() || pair.is_too_large();
    let condition = PairCondition::new(PairState::Failing, true, sentence);
    report(pair, &observed, Some(condition).filter(|_| exists));
    ReconcileResult::Done
}

/// Logs a changed condition, and records an Event on the source if a person must act.
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
        pair.write_event(source.uid, event, reason);
    }
}
