//! The next action for a pair: pure. The order of the actions is upstream's (sync-controller
//! `controller/controller.go:135-282`); any of them may be the last before a crash, and the next process
//! goes on from what it sees.

use crate::{
    model::object::{Cached, Finalizers, SourceObject, TargetObject, TargetSecret},
    settings::OrphanPolicy,
    sync::{
        observed::{Attempt, Observed, Ownership, SyncRules},
        orphan::OrphanVerdict,
        status::{Conflict, Hold, PairStatus, Wait},
    },
};

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SyncAction {
    /// Adds our finalizer to the source.
    AddFinalizer,
    /// Writes the target's status to the source.
    UploadStatus,
    /// Writes this Secret of the target's namespace to the source's.
    UploadSecret(usize),
    CreateNamespace,
    Create,
    Update {
        content: bool,
        metadata: bool,
    },
    /// Tells on the source which generations belong together.
    RecordGenerations,
    /// Reads the source itself: nothing is deleted because it is in no list.
    ConfirmSourceGone,
    /// Reads the target itself: the finalizer stays while it may be there.
    ConfirmTargetGone,
    /// Asks how long the orphan has been one, and how many there are.
    CheckOrphan,
    /// Marks an orphan that is kept.
    MarkOrphan,
    DeleteNamespace,
    DeleteTarget,
    /// Takes our finalizer from the source.
    RemoveFinalizer,
    Done(PairStatus),
}

impl SyncAction {
    /// Whether it changes anything on a cluster.
    pub(crate) fn writes(self) -> bool {
        !matches!(
            self,
            Self::ConfirmSourceGone | Self::ConfirmTargetGone | Self::CheckOrphan | Self::Done(_)
        )
    }

    /// What it does, for people and for the label of a metric.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::AddFinalizer => "add the finalizer",
            Self::UploadStatus => "upload the status",
            Self::UploadSecret(_) => "upload a Secret",
            Self::CreateNamespace => "create the namespace",
            Self::Create => "create the target",
            Self::Update { .. } => "update the target",
            Self::RecordGenerations => "publish the generations",
            Self::ConfirmSourceGone => "look for the source",
            Self::ConfirmTargetGone => "look for the target",
            Self::CheckOrphan => "judge the orphan",
            Self::MarkOrphan => "mark the orphan",
            Self::DeleteNamespace => "delete the namespace",
            Self::DeleteTarget => "delete the target",
            Self::RemoveFinalizer => "remove the finalizer",
            Self::Done(_) => "wait",
        }
    }
}

/// The next action.
pub(crate) fn next_action(observed: &Observed, attempt: &Attempt, rules: &SyncRules) -> SyncAction {
    let source = observed.source.as_ref();
    let ends = source.is_some_and(|source| source.value.state.terminating);
    if observed.paused() {
        return SyncAction::Done(if ends {
            PairStatus::Held(Hold::PausedDeletion)
        } else {
            PairStatus::Paused
        });
    }
    match source {
        None => gone(observed, attempt, rules),
        Some(source) if ends => ending(observed, source, attempt, rules),
        Some(source) => living(observed, source, attempt, rules),
    }
}

fn living(
    observed: &Observed,
    source: &Cached<SourceObject>,
    attempt: &Attempt,
    rules: &SyncRules,
) -> SyncAction {
    if rules.mode.marks() {
        let origin = source.value.copied_from;
        if origin.is_some()
            && (origin == observed.target_cluster || origin == observed.source_cluster)
        {
            return SyncAction::Done(PairStatus::Conflict(Conflict::Loop));
        }
        if observed.ownership(rules) == Ownership::Foreign {
            return SyncAction::Done(PairStatus::Conflict(Conflict::OtherSource));
        }
    }
    if !matches!(source.value.finalizers, Finalizers::Ours(_)) {
        return SyncAction::AddFinalizer;
    }
    if rules.mode.ends_after_writes() && attempt.claimed {
        return SyncAction::Done(PairStatus::Again);
    }
    // The hub is never to see a new spec without the state that it begins from; but what came of the
    // spec in this pass waits until the generations are told.
    if !attempt.spec_begun
        && let Some(action) = upload(observed, source, attempt, rules)
    {
        return action;
    }
    match download(observed, source, attempt, rules) {
        SyncAction::Done(PairStatus::InSync) => {
            upload(observed, source, attempt, rules).unwrap_or(SyncAction::Done(PairStatus::InSync))
        }
        action => action,
    }
}

/// Status, then Secrets.
fn upload(
    observed: &Observed,
    source: &Cached<SourceObject>,
    attempt: &Attempt,
    rules: &SyncRules,
) -> Option<SyncAction> {
    let target = observed.target.as_ref()?;
    let statuses = (source.value.state.status, target.value.state.status);
    if rules.status && statuses.0 != statuses.1 && observed.settled.status != Some(statuses) {
        return Some(SyncAction::UploadStatus);
    }
    let due = |upload: &Cached<TargetSecret>| {
        let elsewhere = upload.value.to.is_some_and(|to| to != source.uid);
        upload.value.controller == Some(target.uid)
            && (upload.value.changed || elsewhere && rules.mode.marks())
    };
    let mut uploads = observed.uploads.iter().enumerate();
    let (index, _) = uploads.find(|(index, upload)| {
        upload.as_ref().is_some_and(due) && !attempt.tried.contains(index)
    })?;
    Some(SyncAction::UploadSecret(index))
}

fn download(
    observed: &Observed,
    source: &Cached<SourceObject>,
    attempt: &Attempt,
    rules: &SyncRules,
) -> SyncAction {
    let Some(target) = &observed.target else {
        return match &observed.namespace {
            None if rules.namespaced => SyncAction::CreateNamespace,
            Some(namespace) if namespace.value.terminating => {
                SyncAction::Done(PairStatus::Waiting(Wait::NamespaceTerminating))
            }
            _ => SyncAction::Create,
        };
    };
    let (from, to) = (&source.value.state, &target.value.state);
    if to.terminating {
        return SyncAction::Done(PairStatus::Waiting(Wait::TargetTerminating));
    }
    let contents = (from.content, to.content);
    let content = contents.0 != contents.1
        && observed.settled.content != Some(contents)
        && !(rules.mode.marks() && proves_equal(source, target));
    let metadata = (from.metadata, to.metadata);
    let metadata = metadata.0 != metadata.1 && observed.settled.metadata != Some(metadata)
        || target.value.orphaned;
    if content || metadata {
        return SyncAction::Update { content, metadata };
    }
    let published = &source.value.generations;
    let other = published.uid.is_some_and(|uid| uid != target.uid) && rules.mode.marks();
    if other || (published.remote, published.local) != (Some(from.generation), Some(to.generation))
    {
        return SyncAction::RecordGenerations;
    }
    let again = rules.mode.ends_after_writes() && attempt.wrote;
    SyncAction::Done(if again { PairStatus::Again } else { PairStatus::InSync })
}

/// Whether the source says that these very generations of these very objects belong together: the contents
/// were equal once, whatever the target's server made of it, and did not change since.
fn proves_equal(source: &Cached<SourceObject>, target: &Cached<TargetObject>) -> bool {
    let (published, from, to) =
        (&source.value.generations, &source.value.state, &target.value.state);
    from.generation > 0
        && published.uid == Some(target.uid)
        && published.remote == Some(from.generation)
        && published.local == Some(to.generation)
}

/// The source is being deleted: the target goes first, then our finalizer.
fn ending(
    observed: &Observed,
    source: &Cached<SourceObject>,
    attempt: &Attempt,
    rules: &SyncRules,
) -> SyncAction {
    let claimed = matches!(source.value.finalizers, Finalizers::Ours(_));
    // Before there were marks only the generations said that the target was made from this source.
    let published = &source.value.generations;
    let made = claimed
        && published.remote.is_some()
        && published.uid.is_none_or(|uid| observed.target.as_ref().is_none_or(|t| t.uid == uid));
    let ours = rules.mode.owns_by_name()
        || match observed.ownership(rules) {
            Ownership::Ours => true,
            Ownership::Unmarked => made,
            Ownership::Foreign => false,
        };
    // A namespace that says whom it was made for may be without its object yet, or already.
    let for_this =
        || observed.namespace.as_ref().and_then(|ns| ns.value.owner_uid) == Some(source.uid);
    let emptied = observed.target.is_none() && claimed && for_this();
    if (ours || emptied) && observed.owns_namespace(Some(source.uid), rules) {
        return delete_namespace(observed);
    }
    match &observed.target {
        Some(target) if ours => delete_target(observed, target, rules),
        None if claimed && rules.mode.proves() && !attempt.target_gone => {
            SyncAction::ConfirmTargetGone
        }
        _ if claimed => SyncAction::RemoveFinalizer,
        _ => SyncAction::Done(PairStatus::Nothing),
    }
}

/// The source is in no list.
fn gone(observed: &Observed, attempt: &Attempt, rules: &SyncRules) -> SyncAction {
    let ours = rules.mode.owns_by_name() || observed.ownership(rules) == Ownership::Ours;
    if let Some(source) = &attempt.unselected {
        // Who does not see its deletion must not hold it up.
        return match source.value.finalizers {
            Finalizers::Ours(_) => SyncAction::RemoveFinalizer,
            _ if ours && observed.target.is_some() => {
                SyncAction::Done(PairStatus::Held(Hold::Unselected))
            }
            _ => SyncAction::Done(PairStatus::Nothing),
        };
    }
    // Whoever has the target by now: our finalizer may still be there.
    if rules.selective && observed.unlisted && !attempt.source_gone {
        return SyncAction::ConfirmSourceGone;
    }
    let Some(target) = observed.target.as_ref().filter(|_| ours) else {
        return SyncAction::Done(PairStatus::Nothing);
    };
    if target.value.state.terminating {
        return SyncAction::Done(PairStatus::Waiting(Wait::TargetTerminating));
    }
    if rules.orphans == OrphanPolicy::Keep && target.value.orphaned {
        return SyncAction::Done(PairStatus::Held(Hold::OrphanKept));
    }
    if !attempt.source_gone {
        return SyncAction::ConfirmSourceGone;
    }
    match (rules.orphans, attempt.verdict) {
        (OrphanPolicy::Keep, _) => SyncAction::MarkOrphan,
        (OrphanPolicy::Confirm, None) => SyncAction::CheckOrphan,
        (OrphanPolicy::Confirm, Some(OrphanVerdict::Grace(left))) => {
            SyncAction::Done(PairStatus::Held(Hold::GracePeriod(left)))
        }
        (OrphanPolicy::Confirm, Some(OrphanVerdict::Tripped)) => {
            SyncAction::Done(PairStatus::Held(Hold::TooManyOrphans))
        }
        _ => {
            let made_for = target.value.copy_of.as_ref().map(|copy| copy.uid);
            match observed.owns_namespace(made_for, rules) {
                true => delete_namespace(observed),
                false => delete_target(observed, target, rules),
            }
        }
    }
}

fn delete_namespace(observed: &Observed) -> SyncAction {
    match &observed.namespace {
        Some(namespace) if namespace.value.terminating => {
            SyncAction::Done(PairStatus::Waiting(Wait::NamespaceTerminating))
        }
        _ => SyncAction::DeleteNamespace,
    }
}

fn delete_target(
    observed: &Observed,
    target: &Cached<TargetObject>,
    rules: &SyncRules,
) -> SyncAction {
    // Where the namespace is gone the target is, too: the event of that is under way.
    let went = rules.namespaced && observed.namespace.is_none();
    match went || target.value.state.terminating {
        true => SyncAction::Done(PairStatus::Waiting(Wait::TargetTerminating)),
        false => SyncAction::DeleteTarget,
    }
}

#[cfg(test)]
mod tests;
