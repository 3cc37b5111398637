//! What to do next about a pair: pure. The order of the steps is upstream's (sync-controller
//! `controller/controller.go:135-282`); any of them may be the last before a crash, and the next process
//! goes on from what it sees.

use crate::{
    model::{
        mode::Mode,
        object::{Finalizers, Known, Namespace, Source, State, Target, Upload},
    },
    settings::OrphanPolicy,
    sync::{
        observed::{Pass, Relation, Rules, View},
        orphan::Verdict,
    },
};

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Adds our finalizer to the source.
    Claim,
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
    Publish,
    /// Reads the source itself: nothing is deleted because it is in no list.
    ProveSource,
    /// Reads the target itself: the finalizer stays while it may be there.
    ProveTarget,
    /// Asks how long the orphan has been one, and how many there are.
    Judge,
    /// Marks an orphan that is kept.
    MarkOrphan,
    DeleteNamespace,
    DeleteTarget,
    /// Takes our finalizer from the source.
    Release,
    Done(Standing),
}

impl Step {
    /// Whether it changes anything on a cluster.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::ProveSource | Self::ProveTarget | Self::Judge | Self::Done(_))
    }

    /// What it does, for people and for the label of a metric.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Claim => "add the finalizer",
            Self::UploadStatus => "upload the status",
            Self::UploadSecret(_) => "upload a Secret",
            Self::CreateNamespace => "create the namespace",
            Self::Create => "create the target",
            Self::Update { .. } => "update the target",
            Self::Publish => "publish the generations",
            Self::ProveSource => "look for the source",
            Self::ProveTarget => "look for the target",
            Self::Judge => "judge the orphan",
            Self::MarkOrphan => "mark the orphan",
            Self::DeleteNamespace => "delete the namespace",
            Self::DeleteTarget => "delete the target",
            Self::Release => "remove the finalizer",
            Self::Done(_) => "wait",
        }
    }
}

/// How a pair stands when there is nothing more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Both sides agree.
    InSync,
    /// Nothing here is ours to care for.
    Nothing,
    /// Upstream's pass ends here; its next one begins at once.
    Again,
    /// People stopped it.
    Paused,
    /// Something has to happen elsewhere first; an event will tell.
    Waiting(&'static str),
    /// Somebody should look at it.
    Held(&'static str),
    /// The target belongs to another source.
    Conflict(&'static str),
}

pub(crate) const UNLISTED: &str = "it is not known yet what else is in the target's namespace";
pub(crate) const TARGET_TERMINATING: &str = "the target is being deleted";
pub(crate) const NAMESPACE_TERMINATING: &str = "the target's namespace is being deleted";
pub(crate) const PAUSED_DELETION: &str = "it is being deleted but paused";
pub(crate) const OTHERS: &str = "the target is the copy of another object";
pub(crate) const LOOP: &str = "it is itself a copy from the cluster that it would be copied to";
pub(crate) const UNSELECTED: &str = "the source is not among those that are followed any more, the target is kept while it is there";
pub(crate) const ORPHAN: &str = "the source is gone, the target stays for the grace period";
pub(crate) const KEPT: &str = "the source is gone, the target is kept";
pub(crate) const TRIPPED: &str = "too many sources are gone at once, all targets are kept";

/// The next step.
pub(crate) fn next(view: &View, pass: &Pass, rules: &Rules) -> Step {
    let source = view.source.as_ref();
    let ends = source.is_some_and(|source| source.row.state.terminating);
    if view.paused() {
        return Step::Done(if ends { Standing::Held(PAUSED_DELETION) } else { Standing::Paused });
    }
    match source {
        None => gone(view, pass, rules),
        Some(source) if ends => ending(view, source, pass, rules),
        Some(source) => living(view, source, pass, rules),
    }
}

fn living(view: &View, source: &Known<Source>, pass: &Pass, rules: &Rules) -> Step {
    if rules.mode == Mode::Safe {
        let origin = source.row.copied_from;
        if origin.is_some() && (origin == view.target_cluster || origin == view.source_cluster) {
            return Step::Done(Standing::Conflict(LOOP));
        }
        if view.relation(rules) == Relation::Foreign {
            return Step::Done(Standing::Conflict(OTHERS));
        }
    }
    if !matches!(source.row.finalizers, Finalizers::Ours(_)) {
        return Step::Claim;
    }
    if rules.mode == Mode::Compat && pass.claimed {
        return Step::Done(Standing::Again);
    }
    // The hub is never to see a new spec without the state that it begins from; but what came of the
    // spec in this pass waits until the generations are told.
    if !pass.spec_begun
        && let Some(step) = upload(view, source, pass, rules)
    {
        return step;
    }
    match download(view, source, pass, rules) {
        Step::Done(Standing::InSync) => {
            upload(view, source, pass, rules).unwrap_or(Step::Done(Standing::InSync))
        }
        step => step,
    }
}

/// Status, then Secrets.
fn upload(view: &View, source: &Known<Source>, pass: &Pass, rules: &Rules) -> Option<Step> {
    let target = view.target.as_ref()?;
    let statuses = (source.row.state.status, target.row.state.status);
    if rules.status && statuses.0 != statuses.1 && view.settled.status != Some(statuses) {
        return Some(Step::UploadStatus);
    }
    let due = |upload: &Known<Upload>| {
        let elsewhere = upload.row.to.is_some_and(|to| to != source.uid);
        upload.row.controller == Some(target.uid)
            && (upload.row.changed || elsewhere && rules.mode == Mode::Safe)
    };
    let mut uploads = view.uploads.iter().enumerate();
    let (index, _) = uploads
        .find(|(index, upload)| upload.as_ref().is_some_and(due) && !pass.tried.contains(index))?;
    Some(Step::UploadSecret(index))
}

fn download(view: &View, source: &Known<Source>, pass: &Pass, rules: &Rules) -> Step {
    let Some(target) = &view.target else {
        return match &view.namespace {
            None if rules.namespaced => Step::CreateNamespace,
            Some(namespace) if namespace.row.terminating => {
                Step::Done(Standing::Waiting(NAMESPACE_TERMINATING))
            }
            _ => Step::Create,
        };
    };
    let (from, to) = (&source.row.state, &target.row.state);
    if to.terminating {
        return Step::Done(Standing::Waiting(TARGET_TERMINATING));
    }
    let contents = (from.content, to.content);
    let content = contents.0 != contents.1
        && view.settled.content != Some(contents)
        && !(rules.mode == Mode::Safe && proves_equal(source, target));
    let metadata = (from.metadata, to.metadata);
    let metadata =
        metadata.0 != metadata.1 && view.settled.metadata != Some(metadata) || target.row.orphaned;
    if content || metadata {
        return Step::Update { content, metadata };
    }
    let published = &source.row.published;
    let other = published.uid.is_some_and(|uid| uid != target.uid) && rules.mode == Mode::Safe;
    if other || (published.remote, published.local) != (Some(from.generation), Some(to.generation))
    {
        return Step::Publish;
    }
    let again = rules.mode == Mode::Compat && pass.wrote;
    Step::Done(if again { Standing::Again } else { Standing::InSync })
}

/// Whether the source says that these very generations of these very objects belong together: the contents
/// were equal once, whatever the target's server made of it, and did not change since.
fn proves_equal(source: &Known<Source>, target: &Known<Target>) -> bool {
    let (published, from, to) = (&source.row.published, &source.row.state, &target.row.state);
    from.generation > 0
        && published.uid == Some(target.uid)
        && published.remote == Some(from.generation)
        && published.local == Some(to.generation)
}

/// The source is being deleted: the target goes first, then our finalizer.
fn ending(view: &View, source: &Known<Source>, pass: &Pass, rules: &Rules) -> Step {
    let claimed = matches!(source.row.finalizers, Finalizers::Ours(_));
    // Before there were marks only the generations said that the target was made from this source.
    let published = &source.row.published;
    let made = claimed
        && published.remote.is_some()
        && published.uid.is_none_or(|uid| view.target.as_ref().is_none_or(|t| t.uid == uid));
    let ours = match (rules.mode, view.relation(rules)) {
        (Mode::Compat, _) | (_, Relation::Ours) => true,
        (_, Relation::Unmarked) => made,
        (_, Relation::Foreign) => false,
    };
    // A namespace that says whom it was made for may be without its object yet, or already.
    let for_this = || view.namespace.as_ref().and_then(|ns| ns.row.owner_uid) == Some(source.uid);
    let emptied = view.target.is_none() && claimed && for_this();
    if (ours || emptied) && view.owns_namespace(Some(source.uid), rules) {
        return delete_namespace(view);
    }
    match &view.target {
        Some(target) if ours => delete_target(view, target, rules),
        None if claimed && rules.mode == Mode::Safe && !pass.target_gone => Step::ProveTarget,
        _ if claimed => Step::Release,
        _ => Step::Done(Standing::Nothing),
    }
}

/// The source is in no list.
fn gone(view: &View, pass: &Pass, rules: &Rules) -> Step {
    let ours = rules.mode == Mode::Compat || view.relation(rules) == Relation::Ours;
    if let Some(source) = &pass.unselected {
        // Who does not see its deletion must not hold it up.
        return match source.row.finalizers {
            Finalizers::Ours(_) => Step::Release,
            _ if ours && view.target.is_some() => Step::Done(Standing::Held(UNSELECTED)),
            _ => Step::Done(Standing::Nothing),
        };
    }
    // Whoever has the target by now: our finalizer may still be there.
    if rules.selective && view.left && !pass.source_gone {
        return Step::ProveSource;
    }
    let Some(target) = view.target.as_ref().filter(|_| ours) else {
        return Step::Done(Standing::Nothing);
    };
    if target.row.state.terminating {
        return Step::Done(Standing::Waiting(TARGET_TERMINATING));
    }
    if rules.orphans == OrphanPolicy::Keep && target.row.orphaned {
        return Step::Done(Standing::Held(KEPT));
    }
    if !pass.source_gone {
        return Step::ProveSource;
    }
    match (rules.orphans, pass.verdict) {
        (OrphanPolicy::Keep, _) => Step::MarkOrphan,
        (OrphanPolicy::Confirm, None) => Step::Judge,
        (OrphanPolicy::Confirm, Some(Verdict::Grace(_))) => Step::Done(Standing::Held(ORPHAN)),
        (OrphanPolicy::Confirm, Some(Verdict::Tripped)) => Step::Done(Standing::Held(TRIPPED)),
        _ => {
            let made_for = target.row.copy_of.as_ref().map(|copy| copy.uid);
            match view.owns_namespace(made_for, rules) {
                true => delete_namespace(view),
                false => delete_target(view, target, rules),
            }
        }
    }
}

/// Changes the view as the step would change the clusters, for those who only want to know; `false` where
/// what follows is not known.
pub(crate) fn pretend(step: Step, view: &mut View, pass: &mut Pass) -> bool {
    let View { source, target, .. } = view;
    match (step, source, target) {
        (Step::Claim, Some(source), _) => {
            pass.claimed = true;
            source.row.finalizers = Finalizers::Ours(0);
        }
        (Step::UploadStatus, Some(source), Some(target)) => {
            source.row.state.status = target.row.state.status;
        }
        (Step::UploadSecret(index), ..) => pass.tried.push(index),
        (Step::CreateNamespace, Some(source), _) => {
            let row = Namespace { terminating: false, owner: None, owner_uid: None };
            view.namespace = Some(Known { uid: source.uid, version: 0, large: false, row });
        }
        (Step::Create, Some(source), target) => {
            let state = State { generation: 1, ..source.row.state.clone() };
            let row = Target { state, copy_of: None, has_annotations: true, orphaned: false };
            *target = Some(Known { uid: source.uid, version: 0, large: false, row });
        }
        (Step::Update { .. }, Some(source), Some(target)) => {
            target.row.state.content = source.row.state.content;
            target.row.state.metadata = source.row.state.metadata;
        }
        (Step::Publish, Some(source), Some(target)) => {
            source.row.published.remote = Some(source.row.state.generation);
            source.row.published.local = Some(target.row.state.generation);
            source.row.published.uid = Some(target.uid);
        }
        _ => return false,
    }
    true
}

fn delete_namespace(view: &View) -> Step {
    match &view.namespace {
        Some(namespace) if namespace.row.terminating => {
            Step::Done(Standing::Waiting(NAMESPACE_TERMINATING))
        }
        _ => Step::DeleteNamespace,
    }
}

fn delete_target(view: &View, target: &Known<Target>, rules: &Rules) -> Step {
    // Where the namespace is gone the target is, too: the news of that are under way.
    let went = rules.namespaced && view.namespace.is_none();
    match went || target.row.state.terminating {
        true => Step::Done(Standing::Waiting(TARGET_TERMINATING)),
        false => Step::DeleteTarget,
    }
}

#[cfg(test)]
mod tests;
