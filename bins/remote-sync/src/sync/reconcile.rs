//! Reconciler: observes, decides and applies until there is nothing more to do about a pair.

use std::{
    sync::MutexGuard,
    time::{Duration, Instant},
};

use apiclient::{
    error::Error,
    lock::lock,
    workqueue::{ReconcileResult, WorkItem},
};

use crate::{
    cache::{RetryClass, backoff, classify},
    model::key::Pair,
    sync::{
        SyncContext,
        decide::{self, SyncAction},
        observed::{Attempt, Observed, SyncRules},
        outcome::{blocked, failed, finished},
        pair::PairContext,
        remote::RemoteSync,
        status::{Next, Reason},
    },
};

/// The most actions of an attempt, apart from Secrets: with more, another writer undoes them.
const MAX_ACTIONS: usize = 16;

/// Reconciles pairs of `remote` until the queue ends this worker; calls `start_workers` before each pair, as one
/// worker may not be enough.
pub(crate) fn run_worker(context: &SyncContext, remote: &RemoteSync, start_workers: &dyn Fn()) {
    while let Some(item) = remote.queue.get() {
        start_workers();
        let result = match remote.is_open(item.key.kind) {
            true => reconcile(context, remote, &item).unwrap_or(ReconcileResult::RequeueAsLarge),
            false => ReconcileResult::Park,
        };
        remote.queue.done(&item, result);
    }
}

/// Makes an attempt at a pair; a dry run ends it at its first write. `None` if an object turned out to be large.
fn reconcile(
    context: &SyncContext,
    remote: &RemoteSync,
    item: &WorkItem<Pair>,
) -> Option<ReconcileResult> {
    let Some(pair) = PairContext::new(context, remote, item) else {
        return Some(ReconcileResult::Failed(backoff(RetryClass::Transient, item.failures)));
    };
    if let Some(sentence) = pair.blocked() {
        return Some(blocked(&pair, &sentence));
    }
    if !item.large && pair.is_large() {
        return None;
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
    /// One pair with a large object is reconciled at a time, in the whole process.
    large: Option<MutexGuard<'a, ()>>,
}

impl<'a> Reconciler<'a> {
    fn run(mut self) -> Option<ReconcileResult> {
        let mut begun = false;
        for _ in 0..MAX_ACTIONS + self.pair.context.settings.secrets.len() {
            let observed = self.pair.observe();
            self.attempt.check_proof(&observed);
            let action = decide::next_action(&observed, &self.attempt, &self.rules);
            if let SyncAction::Done(reason) = action {
                return Some(self.end(&observed, reason));
            }
            if !begun {
                begun = true;
                if !self.begin() {
                    return Some(ReconcileResult::Done);
                }
                // By now something else may have to be done, or nothing.
                continue;
            }
            match self.wait(action, &observed) {
                None => {}
                Some(wait) if action == SyncAction::UploadStatus => {
                    (self.attempt.status_tried, self.upload_wait) = (true, Some(wait));
                    continue;
                }
                // Not done: -once must not end here.
                Some(wait) => return Some(ReconcileResult::Failed(wait)),
            }
            match self.pair.apply(action, &observed, &mut self.attempt) {
                Ok(Next::Continue(())) => {}
                Ok(Next::Break(reason)) => return Some(self.end(&observed, reason)),
                // It has grown, or its size was not known.
                Err(Error::TooLarge(_)) if !self.pair.item.large => return None,
                Err(error) if is_skipped(action, &error) => {
                    self.attempt.status_tried |= action == SyncAction::UploadStatus;
                    self.failed_upload.get_or_insert(error);
                }
                Err(error) => return Some(failed(&self.pair, &error)),
            }
        }
        let message =
            "gave up after repeated conflicts: another writer keeps updating it".to_owned();
        let error = Error::Unavailable { message, retry_after: None, of_object: true };
        Some(failed(&self.pair, &error))
    }

    /// Waits for the limiter, unless nothing will be written, and then for the turn of a large pair; `false` at the
    /// end.
    fn begin(&mut self) -> bool {
        let context: &'a SyncContext = self.pair.context;
        if !context.settings.dry_run && !self.pair.begin() {
            return false;
        }
        self.large = self.pair.item.large.then(|| lock(&context.large));
        !self.pair.remote.stop.raised()
    }

    /// The time until a write may be repeated that something undoes.
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

    fn end(&self, observed: &Observed, reason: Option<Reason>) -> ReconcileResult {
        let failed = self.failed_upload.clone();
        let result = finished(&self.pair, observed, reason, &self.attempt, failed);
        // What is not uploaded yet is not done: -once must not end here.
        self.upload_wait.map_or(result, ReconcileResult::Failed)
    }
}

/// Returns whether the attempt goes on after this failure: a Secret that cannot be written blocks neither the others
/// nor the spec, and neither does a status that is not served any more, until discovery notices.
fn is_skipped(action: SyncAction, error: &Error) -> bool {
    match action {
        SyncAction::SyncSecret(_) => classify(error) != RetryClass::Down,
        SyncAction::UploadStatus => matches!(error, Error::NotServed(_)),
        _ => false,
    }
}
