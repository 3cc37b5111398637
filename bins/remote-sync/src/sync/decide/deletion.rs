//! Decisions about a pair whose source is terminating or gone. Every deletion passes the limit.

use crate::{
    model::object::{Cached, SourceObject, TargetObject},
    settings::NamespacePolicy,
    sync::{
        decide::{MARK, SyncAction, has_finalizer, may_adopt, wait},
        observed::{Attempt, Destroyed, Observed, Ownership, SyncRules},
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
    let release = if has_finalizer {
        SyncAction::RemoveFinalizer
    } else {
        SyncAction::Done(PairStatus::Nothing)
    };
    match (&observed.target, observed.ownership()) {
        (Some(target), Ownership::Ours) => delete_target(target, attempt),
        // Nothing unmarked is deleted.
        (Some(_), Ownership::Unmarked) if has_finalizer && may_adopt(observed, attempt, rules) => {
            MARK
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

/// There is neither source nor target; a namespace that this instance made may be left of them.
fn with_nothing(observed: &Observed, attempt: &Attempt, rules: &SyncRules) -> SyncAction {
    let nothing = SyncAction::Done(PairStatus::Nothing);
    if rules.keeps_orphans || !may_delete_namespace(observed, rules) {
        return nothing;
    }
    if !attempt.source_gone {
        return SyncAction::ConfirmSourceGone;
    }
    delete_unneeded(observed, attempt, rules).unwrap_or(nothing)
}

/// Returns whether the target's namespace may be deleted if nothing is left in it.
fn may_delete_namespace(observed: &Observed, rules: &SyncRules) -> bool {
    rules.namespaces == NamespacePolicy::Empty && observed.has_unneeded_namespace()
}

/// Deletes the target's namespace if this instance made it and nothing is left in it.
fn delete_unneeded(
    observed: &Observed,
    attempt: &Attempt,
    rules: &SyncRules,
) -> Option<SyncAction> {
    if !may_delete_namespace(observed, rules) {
        return None;
    }
    match attempt.namespace_empty {
        None => Some(SyncAction::CheckNamespace),
        Some(true) => Some(delete_namespace(observed, attempt)),
        Some(false) => None,
    }
}

fn delete_namespace(observed: &Observed, attempt: &Attempt) -> SyncAction {
    match &observed.namespace {
        Some(namespace) if namespace.value.terminating => wait(Reason::NamespaceTerminating),
        _ => within_limit(attempt, Destroyed::Namespace, SyncAction::DeleteNamespace),
    }
}

fn delete_target(target: &Cached<TargetObject>, attempt: &Attempt) -> SyncAction {
    if target.value.state.terminating {
        return wait(Reason::TargetTerminating);
    }
    within_limit(attempt, Destroyed::Target, SyncAction::DeleteTarget)
}

/// The action if the limit let it pass in this attempt.
fn within_limit(attempt: &Attempt, what: Destroyed, action: SyncAction) -> SyncAction {
    match attempt.verdict.filter(|(about, _)| *about == what) {
        None => SyncAction::CheckLimit(what),
        Some((_, Ok(()))) => action,
        Some((_, Err(reason))) => wait(reason),
    }
}
