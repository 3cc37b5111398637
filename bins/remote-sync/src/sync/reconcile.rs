//! Reconciler: observes, decides and applies until there is nothing more to do about a pair.

use std::{
    sync::MutexGuard,
    time::{Duration, Instant},
};

use apiclient::{
    error::Error,
    lock::lock,
    rate_limiter::Admission,
    workqueue::{ReconcileResult, WorkItem},
};

use crate::{
    cache::retry::{RetryClass, backoff, classify},
    model::key::Pair,
    sync::{
        context::SyncContext,
        decide::{self, SyncAction},
        observed::{Attempt, Observed, SyncRules},
        outcome::{blocked, failed, finished},
        pair::PairContext,
        remote::RemoteSync,
        status::PairStatus,
    },
};

/// The most actions of an attempt, apart from Secrets: with more it would not end.
const MAX_ACTIONS: usize = 64;
/// The most repetitions of an action, for example because a webhook undoes it.
const MAX_REPEATS: usize = 3;

/// Reconciles pairs of `remote` until the queue ends this worker; calls `start_workers` before each pair, as one
/// worker may not be enough.
pub(crate) fn run_worker(context: &SyncContext, remote: &RemoteSync, start_workers: &dyn Fn()) {
    while let Some(item) = remote.queue.get() {
        start_workers();
        let result = match remote.is_open(item.key.kind) {
            true => reconcile(context, remote, &item),
            false => ReconcileResult::Park,
        };
        remote.queue.done(&item, result);
    }
}

/// Makes an attempt at a pair; a dry run ends it at its first write.
fn reconcile(context: &SyncContext, remote: &RemoteSync, item: &WorkItem<Pair>) -> ReconcileResult {
    let Some(pair) = PairContext::new(context, remote, item) else {
        return ReconcileResult::Failed(backoff(RetryClass::Transient, item.failures));
    };
    // A Namespace's annotation has the name of its object, but not the kind.
    if pair.kinds.source.namespaced == pair.source.namespace.is_empty() {
        return ReconcileResult::Done;
    }
    if let Some(sentence) = pair.blocked() {
        return blocked(&pair, &sentence);
    }
    if !item.large && pair.is_large() {
        return ReconcileResult::RequeueAsLarge;
    }
    let (rules, attempt) = (pair.rules(), Attempt::default());
    Reconciler { pair, rules, attempt, failed_secret: None, large: None }.run()
}

/// One attempt to bring a pair in sync.
struct Reconciler<'a> {
    pair: PairContext<'a>,
    rules: SyncRules,
    attempt: Attempt,
    /// Why the first Secret could not be written that failed.
    failed_secret: Option<Error>,
    /// One pair with a large object is reconciled at a time, in the whole process.
    large: Option<MutexGuard<'a, ()>>,
}

impl<'a> Reconciler<'a> {
    fn run(mut self) -> ReconcileResult {
        let (mut last, mut repeats, mut begun) = (None, 0, false);
        for _ in 0..MAX_ACTIONS + self.pair.context.settings.secrets.len() {
            let observed = self.pair.observe();
            self.attempt.turn_to(&observed);
            let action = decide::next_action(&observed, &self.attempt, &self.rules);
            if !begun && !matches!(action, SyncAction::Done(_)) {
                begun = true;
                match self.begin() {
                    Admission::Admitted { waited: false } => {}
                    // By now something else may have to be done, or nothing.
                    Admission::Admitted { waited: true } => continue,
                    Admission::Stopped => return ReconcileResult::Done,
                }
            }
            repeats = if last.replace(action) == Some(action) { repeats + 1 } else { 0 };
            if repeats == MAX_REPEATS {
                break;
            }
            if let Some(result) = self.perform(action, observed) {
                return result;
            }
        }
        let message =
            "gave up after repeated conflicts: another writer keeps updating it".to_owned();
        let error = Error::Unavailable { message, retry_after: None, of_object: true };
        failed(&self.pair, &error)
    }

    /// Waits for the limiter, unless nothing will be written, and then for the turn of a large pair.
    fn begin(&mut self) -> Admission {
        let is_dry = self.pair.context.settings.dry_run;
        let admission =
            if is_dry { Admission::Admitted { waited: false } } else { self.pair.begin() };
        if !self.pair.item.large || !matches!(admission, Admission::Admitted { .. }) {
            return admission;
        }
        let context: &'a SyncContext = self.pair.context;
        self.large = Some(lock(&context.large));
        match self.pair.remote.stop.raised() {
            true => Admission::Stopped,
            false => Admission::Admitted { waited: true },
        }
    }

    /// Performs an action; returns the result if it was the last one.
    fn perform(&mut self, action: SyncAction, observed: Observed) -> Option<ReconcileResult> {
        match action {
            SyncAction::Done(status) => Some(self.end(&observed, status)),
            SyncAction::UploadStatus if let Some(wait) = self.wait(action, &observed) => {
                self.attempt.upload_wait = Some(wait);
                None
            }
            action if let Some(wait) = self.wait(action, &observed) => {
                // Not done: -once must not end here.
                Some(ReconcileResult::Failed(wait))
            }
            action => match self.pair.apply(action, &observed, &mut self.attempt) {
                Ok(None) => None,
                Ok(Some(status)) => Some(self.end(&observed, status)),
                // It has grown, or its size was not known.
                Err(Error::TooLarge(_)) if !self.pair.item.large => {
                    Some(ReconcileResult::RequeueAsLarge)
                }
                // A Secret that cannot be written blocks neither the others nor the spec.
                Err(error)
                    if matches!(action, SyncAction::SyncSecret(_))
                        && classify(&error) != RetryClass::Down =>
                {
                    self.failed_secret.get_or_insert(error);
                    None
                }
                Err(error) => Some(failed(&self.pair, &error)),
            },
        }
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

    fn end(&self, observed: &Observed, status: PairStatus) -> ReconcileResult {
        finished(&self.pair, observed, status, &self.attempt, self.failed_secret.clone())
    }
}
