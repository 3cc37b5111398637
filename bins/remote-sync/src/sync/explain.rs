//! Explanation of a pair: its state, or the next action with the reason.

use std::time::Instant;

use apiclient::workqueue::WorkItem;

use crate::{
    model::key::Pair,
    sync::{
        context::SyncContext,
        decide::{MARK, SyncAction, next_action},
        observed::{Attempt, Destroyed, Observed},
        pair::PairContext,
        remote::RemoteSync,
        status::PairState,
    },
};

/// One line about a pair; `None` if neither of its objects exists.
pub(crate) fn explain(context: &SyncContext, remote: &RemoteSync, pair: &Pair) -> Option<String> {
    let since = Instant::now();
    let item = WorkItem { key: pair.clone(), since, urgent: true, large: true, failures: 0 };
    let seen = PairContext::new(context, remote, &item);
    let observed = seen.as_ref().map(|pair| pair.observe(Instant::now()));
    // Nothing was looked at yet.
    let observed = observed.map(|observed| Observed { secrets_checked: true, ..observed });
    if observed.as_ref().is_some_and(|it| it.source.is_none() && it.target.is_none()) {
        return None;
    }
    if let Some(obstacle) = remote.obstacle(pair.kind) {
        return Some(format!("nothing is done: {obstacle}"));
    }
    let (pair, observed) = (seen?, observed?);
    if let Some(sentence) = pair.blocked() {
        return Some(format!("{}: {sentence}", PairState::Failing.as_str()));
    }
    Some(match next_action(&observed, &Attempt::default(), &pair.rules()) {
        SyncAction::Done(status) => match status.condition() {
            Some(condition) => format!("{}: {}", condition.state.as_str(), condition.reason),
            None if observed.source.is_none() => "nothing to do, there is no pair".into(),
            None => PairState::InSync.as_str().into(),
        },
        action => format!("next: {}, as {}", action.as_str(), reason(action, &observed)),
    })
}

/// The reason for an action on a pair that looks like this.
fn reason(action: SyncAction, observed: &Observed) -> &'static str {
    let gone = observed.source.is_none();
    match action {
        SyncAction::AddFinalizer => "the source must not go before its target",
        MARK => "the target has no mark of this source, cluster and instance",
        SyncAction::UploadStatus => "the source has another status than the target",
        SyncAction::SyncSecret(_) => "it differs from what was uploaded",
        SyncAction::CreateNamespace => "the target's namespace does not exist",
        SyncAction::Create => "there is no target",
        SyncAction::Update { content: true, .. } => "the contents differ",
        SyncAction::Update { content: false, .. } => "labels or annotations differ",
        SyncAction::RecordGenerations => "the source does not say what was copied of it",
        SyncAction::RemoveRecords => "-track leaves it out",
        SyncAction::ConfirmSourceGone => "the source is in no list",
        SyncAction::ConfirmTargetGone => "the target is in no list",
        SyncAction::CheckLimit(Destroyed::Target) if gone => "the source is gone",
        SyncAction::CheckLimit(_) if gone => "both objects are gone",
        SyncAction::CheckLimit(_) => "the source is being deleted",
        SyncAction::CheckNamespace => "it was created for targets, and no pair needs it",
        SyncAction::DeleteNamespace => "it was created for targets, and nothing is in it",
        SyncAction::DeleteTarget if gone => "the source is gone",
        SyncAction::DeleteTarget => "the source is being deleted",
        SyncAction::RemoveFinalizer => "the source is being deleted, and its target is gone",
        SyncAction::Done(_) => "there is nothing to do",
    }
}
