//! Decisions about a pair whose source is terminating or gone. Every deletion passes the limit.

use crate::{
    model::object::{Cached, SourceObject, TargetObject},
    settings::NamespacePolicy,
    sync::{
        decide::{SyncAction, has_finalizer, wait},
        observed::{Attempt, Observed, Ownership, SyncRules},
        status::{PairStatus, Reason},
    },
};

/// The source is being deleted: first the target, then its namespace, then our finalizer.
pub(super) fn with_terminating_source(
    observed: &Observed,
    source: &Cached<SourceObject>,
    attempt: &Attempt,
    rules: &SyncRules,
) -> SyncAction {
    let has_finalizer = has_finalizer(source);
    let release =
        if has_finalizer { SyncAction::Release } else { SyncAction::Done(PairStatus::Nothing) };
    match (&observed.target, observed.ownership()) {
        (Some(target), Ownership::Ours) => delete_target(target, attempt),
        // Nothing unmarked is deleted.
        (Some(_), Ownership::Unmarked) if has_finalizer && observed.may_adopt(rules) => {
            SyncAction::Update { content: false, metadata: false }
        }
        (None, _) if has_finalizer && !attempt.target_gone => SyncAction::ConfirmTargetGone,
        (None, _) if has_finalizer => delete_unneeded(observed, attempt, rules).unwrap_or(release),
        _ => release,
    }
}

/// The source is in no list.
pub(super) fn without_source(
    observed: &Observed,
    attempt: &Attempt,
    rules: &SyncRules,
) -> SyncAction {
    let ours = observed.ownership() == Ownership::Ours;
    match &observed.target {
        Some(target) if ours => with_orphan(target, attempt, rules),
        Some(_) if observed.ownership() == Ownership::Unproven => wait(Reason::Unidentified),
        Some(_) => SyncAction::Done(PairStatus::Nothing),
        None => with_nothing(observed, attempt, rules),
    }
}

/// The target is ours and has no source.
fn with_orphan(target: &Cached<TargetObject>, attempt: &Attempt, rules: &SyncRules) -> SyncAction {
    if target.value.state.terminating {
        return wait(Reason::TargetTerminating);
    }
    if !attempt.source_gone {
        return SyncAction::ConfirmSourceGone;
    }
    match rules.keeps_orphans {
        true => wait(Reason::OrphanKept),
        false => delete_target(target, attempt),
    }
}

/// There is neither source nor target; a namespace that this instance created may be left of them.
fn with_nothing(observed: &Observed, attempt: &Attempt, rules: &SyncRules) -> SyncAction {
    match delete_unneeded(observed, attempt, rules) {
        Some(_) if rules.keeps_orphans => SyncAction::Done(PairStatus::Nothing),
        Some(_) if !attempt.source_gone => SyncAction::ConfirmSourceGone,
        action => action.unwrap_or(SyncAction::Done(PairStatus::Nothing)),
    }
}

/// Deletes the target's namespace if this instance created it and nothing is left in it.
fn delete_unneeded(
    observed: &Observed,
    attempt: &Attempt,
    rules: &SyncRules,
) -> Option<SyncAction> {
    let may_delete = rules.namespaces == NamespacePolicy::Empty
        && observed.has_unneeded_namespace()
        && !attempt.namespace_done;
    may_delete.then_some(SyncAction::DeleteNamespace)
}

/// The target goes if the limit let it pass in this attempt.
fn delete_target(target: &Cached<TargetObject>, attempt: &Attempt) -> SyncAction {
    match attempt.verdict {
        _ if target.value.state.terminating => wait(Reason::TargetTerminating),
        None => SyncAction::CheckLimit,
        Some(Ok(())) => SyncAction::DeleteTarget,
        Some(Err(reason)) => wait(reason),
    }
}
