//! A worker's passes: decide, do, look again, until there is nothing more to do about a pair.

use std::time::Duration;

use shared::error::Error;

use crate::{
    cache::retry::{RetryClass, classify},
    settings,
    sync::{
        cleanup,
        context::SyncContext,
        decide::{self, SyncAction},
        observed::{Attempt, Observed, SyncRules},
        outcome::{failed, finished, invalid_names, too_large},
        pair::PairContext,
        remote::RemoteSync,
        simulate::simulate,
        status::PairStatus,
        workqueue::{ReconcileResult, WorkItem},
    },
};

/// A pass that takes more actions does not come to rest; each Secret is one more.
const MOST_ACTIONS: usize = 64;
/// Nor does one that takes the same action so often, as where a webhook undoes it.
const MOST_REPEATS: usize = 3;

/// Works on the pairs of `remote` until there are none, or it is asked to end; calls `staff` before each, as
/// one worker may not be enough.
pub(crate) fn run_worker(context: &SyncContext, remote: &RemoteSync, staff: &dyn Fn()) {
    while let Some(item) = remote.queue.get() {
        staff();
        let result = match item.large {
            true => reconcile_large(context, remote, &item),
            false => reconcile(context, remote, &item),
        };
        remote.queue.done(&item, result);
    }
}

/// As [`reconcile`], when there is memory for it.
fn reconcile_large(context: &SyncContext, remote: &RemoteSync, item: &WorkItem) -> ReconcileResult {
    match context.permits.acquire(&remote.stop) {
        Some(_permit) => reconcile(context, remote, item),
        None => ReconcileResult::Done,
    }
}

fn reconcile(context: &SyncContext, remote: &RemoteSync, item: &WorkItem) -> ReconcileResult {
    let Some(kinds) = remote.kinds(item.pair.kind) else {
        return ReconcileResult::Failed(RetryClass::Transient, Duration::ZERO);
    };
    let pair = PairContext::new(context, remote, item, &kinds);
    // A Namespace says no kind, only the name of an object.
    if kinds.source.namespaced == pair.source.0.is_empty() {
        return ReconcileResult::Done;
    }
    if let Err(sentence) = pair.check() {
        return invalid_names(&pair, sentence);
    }
    if let Some(which) = pair.too_large() {
        return too_large(&pair, which);
    }
    if !item.large && pair.is_large() {
        return ReconcileResult::RequeueAsLarge;
    }
    if context.settings.operation == settings::Operation::Cleanup {
        return cleanup::run(&pair);
    }
    let rules = remote.rules(&kinds, &context.settings);
    Reconciler { pair, rules, attempt: Attempt::default(), troubles: Vec::new(), simulated: None }
        .run()
}

/// One pass over a pair.
struct Reconciler<'a> {
    pair: PairContext<'a>,
    rules: SyncRules,
    attempt: Attempt,
    /// Of single Secrets.
    troubles: Vec<Error>,
    /// What the clusters would be like, where nothing is written.
    simulated: Option<Observed>,
}

impl Reconciler<'_> {
    fn run(mut self) -> ReconcileResult {
        let (mut last, mut repeats) = (None, 0);
        for _ in 0..MOST_ACTIONS + self.pair.context.settings.secrets.len() {
            let observed = self.simulated.take().unwrap_or_else(|| self.pair.observe());
            let action = decide::next_action(&observed, &self.attempt, &self.rules);
            repeats = if last.replace(action) == Some(action) { repeats + 1 } else { 0 };
            if repeats == MOST_REPEATS {
                break;
            }
            if let Some(result) = self.perform(action, observed) {
                return result;
            }
        }
        let message = "it keeps changing: somebody else writes it all the time".to_owned();
        let error = Error::Unavailable { message, retry_after: None, of_object: true };
        failed(&self.pair, &error)
    }

    /// Takes one action; returns the outcome if it was the last.
    fn perform(&mut self, action: SyncAction, observed: Observed) -> Option<ReconcileResult> {
        let dry_run = self.pair.context.settings.dry_run;
        match action {
            SyncAction::Done(PairStatus::Again) if dry_run => {
                (self.attempt, self.simulated) = (Attempt::default(), Some(observed));
                None
            }
            SyncAction::Done(status) => Some(self.end(&observed, status)),
            action if dry_run && action.writes() => self.simulate(action, observed),
            action => match self.pair.apply(action, &observed, &mut self.attempt) {
                Ok(None) => None,
                Ok(Some(status)) => Some(self.end(&observed, status)),
                // It is larger than it was, or nothing was known of it.
                Err(Error::TooLarge(_)) if self.pair.is_hurried() => {
                    Some(ReconcileResult::RequeueAsLarge)
                }
                // One Secret that cannot be written holds up neither the others nor the spec.
                Err(error)
                    if matches!(action, SyncAction::UploadSecret(_))
                        && classify(&error) != RetryClass::Down =>
                {
                    self.troubles.push(error);
                    None
                }
                Err(error) => Some(failed(&self.pair, &error)),
            },
        }
    }

    fn simulate(&mut self, action: SyncAction, mut observed: Observed) -> Option<ReconcileResult> {
        log::info!("{}: would {}", self.pair, action.words());
        if !simulate(action, &mut observed, &mut self.attempt) {
            return Some(self.end(&observed, PairStatus::Nothing));
        }
        self.simulated = Some(observed);
        None
    }

    fn end(&self, observed: &Observed, status: PairStatus) -> ReconcileResult {
        finished(&self.pair, observed, status, &self.attempt, &self.troubles)
    }
}
