//! Decisions about a pair whose source is terminating or gone.

use crate::{
    model::object::{Cached, SourceObject},
    sync::{
        decide::{SyncAction, has_finalizer, wait},
        observed::{Attempt, Observed, Ownership, SyncRules},
        status::Reason,
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
    match (&observed.target, observed.ownership()) {
        (Some(target), Ownership::Ours) if target.value.state.terminating => {
            wait(Reason::TargetTerminating)
        }
        (Some(_), Ownership::Ours) => SyncAction::DeleteTarget,
        _ if !has_finalizer => SyncAction::Done(None),
        // Nothing unmarked is deleted.
        (Some(_), Ownership::Unmarked) if observed.may_adopt(rules) => {
            SyncAction::Update { content: false, metadata: false }
        }
        (None, _) if attempt.gone != Some(observed.subjects()) => SyncAction::ConfirmGone,
        (None, _) if deletes_namespace(attempt, rules) => SyncAction::DeleteNamespace,
        _ => SyncAction::Release,
    }
}

/// The source is in no list.
pub(super) fn without_source(
    observed: &Observed,
    attempt: &Attempt,
    rules: &SyncRules,
) -> SyncAction {
    match (&observed.target, observed.ownership()) {
        (Some(target), Ownership::Ours) if target.value.state.terminating => {
            wait(Reason::TargetTerminating)
        }
        (Some(_), Ownership::Ours) if attempt.gone != Some(observed.subjects()) => {
            SyncAction::ConfirmGone
        }
        (Some(_), Ownership::Ours) if rules.keeps_orphans => wait(Reason::OrphanKept),
        (Some(_), Ownership::Ours) => SyncAction::DeleteTarget,
        (Some(_), Ownership::Unproven) => wait(Reason::Unidentified),
        (None, _) if deletes_namespace(attempt, rules) => SyncAction::DeleteNamespace,
        _ => SyncAction::Done(None),
    }
}

fn deletes_namespace(attempt: &Attempt, rules: &SyncRules) -> bool {
    rules.deletes_namespaces && !attempt.namespace_done
}
