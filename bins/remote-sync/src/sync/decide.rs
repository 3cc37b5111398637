//! Decision about a pair: the next action for the observed state. Pure. Actions follow upstream's order
//! (sync-controller `controller/controller.go:135-282`). A crash may follow any action: the next process continues from
//! what it observes.

use crate::{
    model::object::{Cached, SourceObject},
    sync::{
        observed::{Attempt, Observed, Ownership, SyncRules},
        status::{DELETE_TARGET, Reason},
    },
};

/// An action on a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SyncAction {
    AddFinalizer,
    /// Writes the target's status to the source.
    UploadStatus,
    /// Uploads this Secret from the target's namespace to the source's, unless it is there.
    SyncSecret(usize),
    /// Creates the target, and its namespace if missing.
    Create,
    /// Writes the target's metadata and mark, which may adopt it; also the content if it differs.
    Update {
        content: bool,
    },
    /// Records on the source which generations of both objects have the same content.
    RecordGenerations,
    /// Reads the missing object: absence from a list does not prove that the other one may be deleted or released.
    ConfirmGone,
    /// Deletes the target once the limit allows it.
    DeleteTarget,
    /// Deletes the target's namespace if it was created for targets and is empty.
    DeleteNamespace,
    /// Removes our finalizer and our records from the source.
    Release,
    /// Ends the attempt: the pair is in sync, or the reason why not.
    Done(Option<Reason>),
}

impl SyncAction {
    /// Returns whether the action changes anything on a cluster.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::ConfirmGone | Self::Done(_))
    }

    /// The metrics' label `operation`. Dashboards group by it: the changelog announces a rename.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::AddFinalizer => "add_finalizer",
            Self::UploadStatus => "update_status",
            Self::SyncSecret(_) => "upload_secret",
            Self::Create => "create_target",
            Self::Update { .. } => "update_target",
            Self::RecordGenerations => "record_generations",
            Self::ConfirmGone => "confirm_gone",
            Self::DeleteTarget => DELETE_TARGET,
            Self::DeleteNamespace => "delete_namespace",
            Self::Release => "remove_finalizer",
            Self::Done(_) => "done",
        }
    }

    /// Why this is the next action on the observed pair.
    pub(crate) fn reason(self, observed: &Observed) -> &'static str {
        let is_gone = observed.source.is_none();
        let is_ending = observed.source.as_ref().is_some_and(|it| it.value.state.terminating);
        match self {
            Self::AddFinalizer => "the source must not go before its target",
            Self::UploadStatus => "the source has another status than the target",
            Self::SyncSecret(_) => "it is not known to be uploaded",
            Self::Create => "there is no target",
            Self::Update { content: true } => "the contents differ",
            Self::Update { .. } if observed.is_marked() => "labels or annotations differ",
            Self::Update { .. } => "the target has no mark of this source, cluster and instance",
            Self::RecordGenerations => "the source does not say what was copied of it",
            Self::ConfirmGone if is_gone => "the source is in no list",
            Self::ConfirmGone => "the target is in no list",
            Self::DeleteTarget if is_gone => "the source is gone",
            Self::DeleteTarget => "the source is being deleted",
            Self::DeleteNamespace => "its last target is gone",
            Self::Release if is_ending => "the source is being deleted, and its target is gone",
            Self::Release => "-track target records nothing there",
            Self::Done(_) => "there is nothing to do",
        }
    }
}

pub(crate) fn next_action(observed: &Observed, attempt: &Attempt, rules: &SyncRules) -> SyncAction {
    let source = observed.source.as_ref();
    let terminating = source.is_some_and(|source| source.value.state.terminating);
    if observed.paused() {
        return wait(if terminating { Reason::PausedDeletion } else { Reason::Paused });
    }
    match source {
        None => without_source(observed, attempt, rules),
        Some(source) if terminating => with_terminating_source(observed, source, attempt, rules),
        Some(source) => with_source(observed, source, attempt, rules),
    }
}

/// Ends the attempt: the pair is not in sync.
const fn wait(reason: Reason) -> SyncAction {
    SyncAction::Done(Some(reason))
}

fn with_source(
    observed: &Observed,
    source: &Cached<SourceObject>,
    attempt: &Attempt,
    rules: &SyncRules,
) -> SyncAction {
    let origin = source.value.copied_from;
    // The same object under two names: nothing showed that both clusters are the same.
    let itself = observed.target.as_ref().is_some_and(|target| target.uid == source.uid);
    if itself
        || origin.is_some()
            && (origin == observed.target_cluster || origin == observed.source_cluster.record.uid)
    {
        return wait(Reason::Loop);
    }
    let adopts = match (observed.ownership(), &observed.target) {
        (Ownership::Unproven, _) => return wait(Reason::Unidentified),
        (Ownership::Foreign, _) => return wait(Reason::OtherSource),
        (Ownership::Unmarked, Some(target)) if target.value.state.terminating => {
            return wait(Reason::TargetTerminating);
        }
        (Ownership::Unmarked, Some(_)) if !observed.may_adopt(rules) => {
            return wait(Reason::NotOurs);
        }
        (ownership, target) => ownership == Ownership::Unmarked && target.is_some(),
    };
    if rules.marks_sources && !source.value.has_finalizer() {
        return SyncAction::AddFinalizer;
    }
    let uploaded = if adopts { None } else { upload(observed, source, attempt, rules) };
    uploaded.unwrap_or_else(|| download(observed, source, attempt, rules))
}

/// The next action in the direction of the source: status, then Secrets.
fn upload(
    observed: &Observed,
    source: &Cached<SourceObject>,
    attempt: &Attempt,
    rules: &SyncRules,
) -> Option<SyncAction> {
    let target = observed.target.as_ref()?;
    let (from, to) = (target.value.state.status, source.value.state.status);
    if rules.status && from != to && observed.uploaded != Some((from, to)) && !attempt.status_tried
    {
        return Some(SyncAction::UploadStatus);
    }
    let mut secrets = observed.uploads.iter().enumerate();
    let (index, _) = secrets.find(|(index, controller)| {
        **controller == Some(target.uid) && !attempt.secrets_tried.contains(index)
    })?;
    Some(SyncAction::SyncSecret(index))
}

/// The next action in the direction of the target, then the record of generations on the source.
fn download(
    observed: &Observed,
    source: &Cached<SourceObject>,
    attempt: &Attempt,
    rules: &SyncRules,
) -> SyncAction {
    let Some(target) = &observed.target else {
        return SyncAction::Create;
    };
    let (from, to) = (&source.value.state, &target.value.state);
    if to.terminating {
        return wait(Reason::TargetTerminating);
    }
    let written = from.written();
    let altered = attempt.altered.as_ref().is_some_and(|(what, _)| *what == written);
    let settled = altered || observed.updated == Some((written, to.written()));
    let content = !settled && from.content != to.content;
    let metadata = !settled && from.metadata != to.metadata;
    if content || metadata || !observed.is_marked() {
        return SyncAction::Update { content };
    }
    let published = &source.value.generations;
    let other = published.uid.is_some_and(|uid| uid != target.uid);
    let generations = (Some(from.generation), Some(to.generation));
    let outdated = other || (published.remote, published.local) != generations;
    if rules.marks_sources {
        if outdated {
            return SyncAction::RecordGenerations;
        }
    } else if source.value.has_finalizer() || published.records().contains(&true) {
        return SyncAction::Release;
    }
    SyncAction::Done(None)
}

/// The source is terminating: delete the target, then its namespace, then remove our finalizer.
fn with_terminating_source(
    observed: &Observed,
    source: &Cached<SourceObject>,
    attempt: &Attempt,
    rules: &SyncRules,
) -> SyncAction {
    match (&observed.target, observed.ownership()) {
        (Some(target), Ownership::Ours) if target.value.state.terminating => {
            wait(Reason::TargetTerminating)
        }
        (Some(_), Ownership::Ours) => SyncAction::DeleteTarget,
        _ if !source.value.has_finalizer() => SyncAction::Done(None),
        // Unmarked targets are never deleted: mark it first.
        (Some(_), Ownership::Unmarked) if observed.may_adopt(rules) => {
            SyncAction::Update { content: false }
        }
        (None, _) if attempt.gone != Some(observed.subjects()) => SyncAction::ConfirmGone,
        (None, _) if deletes_namespace(attempt, rules) => SyncAction::DeleteNamespace,
        _ => SyncAction::Release,
    }
}

/// No list has the source.
fn without_source(observed: &Observed, attempt: &Attempt, rules: &SyncRules) -> SyncAction {
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

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
