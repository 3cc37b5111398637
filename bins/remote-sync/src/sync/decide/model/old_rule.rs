//! The rule of safe mode as it was before the gate: a frozen copy over the model's objects. It proves that the model
//! finds what was wrong with it.

use std::collections::BTreeSet;

use super::view::{Act, End, Namespace, Progress, Rule, Source, Target, Verdict, View, Why};

/// `next_action` and `OrphanTracker`, without modes, statuses, Secrets, pauses and grace.
pub(super) struct OldRule;

/// Orphans that wait, and the number of those that were deleted.
#[derive(Clone, Default, Hash)]
pub(super) struct OrphanTracker {
    waiting: BTreeSet<usize>,
    deleted: usize,
}

#[derive(PartialEq)]
enum Ownership {
    Ours,
    Unmarked,
    Foreign,
}

impl Rule for OldRule {
    type Gate = OrphanTracker;

    fn turn_to(&self, _view: &View, _progress: &mut Progress) {}

    fn next(&self, view: &View, progress: &Progress) -> Act {
        match &view.source {
            None => without_source(view, progress),
            Some(source) if source.terminating => with_terminating_source(view, source, progress),
            Some(source) => with_source(view, source),
        }
    }

    /// Nothing survived a restart.
    fn gate(&self, _recorded: [u8; 2]) -> OrphanTracker {
        OrphanTracker::default()
    }

    fn ask(&self, gate: &mut OrphanTracker, name: usize, _namespace: bool, _why: Why) -> Verdict {
        gate.waiting.insert(name);
        match gate.waiting.len() + gate.deleted > super::MOST {
            true => Verdict::Held,
            false => Verdict::Open,
        }
    }

    fn recorded(&self, _gate: &OrphanTracker) -> [u8; 2] {
        [0; 2]
    }

    fn forget(&self, gate: &mut OrphanTracker, name: usize) {
        gate.waiting.remove(&name);
    }

    fn sends(&self, _gate: &mut OrphanTracker, _name: usize, _namespace: bool) {}

    fn deleted(&self, gate: &mut OrphanTracker, name: usize, _: bool, progress: &Progress) {
        if progress.verdict.is_some_and(|(_, verdict)| verdict == Verdict::Open) {
            gate.deleted += usize::from(gate.waiting.remove(&name));
        }
    }

    fn is_parked(&self, _shows: &[u8], _remote: usize) -> bool {
        false
    }
}

fn ownership(view: &View) -> Ownership {
    let Some(mark) = view.target.and_then(|target| target.mark) else { return Ownership::Unmarked };
    let is_this = view.source.is_some_and(|source| source.uid == mark.uid);
    if is_this || mark.name == view.name && mark.cluster == view.cluster {
        Ownership::Ours
    } else {
        Ownership::Foreign
    }
}

fn owns_namespace(view: &View, source: Option<u8>) -> bool {
    let made_for = view.namespace.and_then(|namespace| namespace.made_for);
    made_for.is_some_and(|(name, uid, _)| name == view.name && Some(uid) == source) && !view.shared
}

fn with_source(view: &View, source: &Source) -> Act {
    if ownership(view) == Ownership::Foreign {
        return Act::Done(End::Conflict);
    }
    if !source.finalizer {
        return Act::AddFinalizer;
    }
    let Some(target) = &view.target else {
        return match &view.namespace {
            None => Act::CreateNamespace,
            Some(namespace) if namespace.terminating => Act::Done(End::Waiting),
            _ => Act::Create,
        };
    };
    let proves_equal = source.published.is_some_and(|published| {
        (published.remote, published.local, published.uid)
            == (source.generation, target.generation, Some(target.uid))
    });
    if source.content != target.content && !proves_equal {
        return Act::Update;
    }
    if !proves_equal {
        return Act::RecordGenerations;
    }
    Act::Done(End::InSync)
}

fn with_terminating_source(view: &View, source: &Source, progress: &Progress) -> Act {
    let of_this =
        |uid: Option<u8>| uid.is_none_or(|uid| view.target.is_none_or(|target| target.uid == uid));
    let copied =
        source.finalizer && source.published.is_some_and(|published| of_this(published.uid));
    let ours = match ownership(view) {
        Ownership::Ours => true,
        Ownership::Unmarked => copied,
        Ownership::Foreign => false,
    };
    let for_this = view.namespace.and_then(|namespace| namespace.made_for);
    let for_this = for_this.is_some_and(|(_, uid, _)| uid == source.uid);
    let empty = view.target.is_none() && source.finalizer && for_this;
    if (ours || empty) && owns_namespace(view, Some(source.uid)) {
        return delete_namespace(view.namespace);
    }
    match &view.target {
        Some(target) if ours => delete_target(view, target),
        None if source.finalizer && !progress.target_gone => Act::ConfirmTargetGone,
        _ if source.finalizer => Act::RemoveFinalizer,
        _ => Act::Done(End::Nothing),
    }
}

fn without_source(view: &View, progress: &Progress) -> Act {
    let ours = ownership(view) == Ownership::Ours;
    if let Some(source) = &progress.unselected {
        return match source.finalizer {
            true => Act::RemoveFinalizer,
            false if ours && view.target.is_some() => Act::Done(End::Held),
            false => Act::Done(End::Nothing),
        };
    }
    if view.selective && view.unlisted && !progress.source_gone {
        return Act::ConfirmSourceGone;
    }
    let Some(target) = view.target.as_ref().filter(|_| ours) else {
        return Act::Done(End::Nothing);
    };
    if !progress.source_gone {
        return Act::ConfirmSourceGone;
    }
    match progress.verdict {
        None => Act::CheckGate { namespace: false, gone: true },
        Some((_, Verdict::Held)) => Act::Done(End::Held),
        _ => match owns_namespace(view, target.mark.map(|mark| mark.uid)) {
            true => delete_namespace(view.namespace),
            false => delete_target(view, target),
        },
    }
}

fn delete_namespace(namespace: Option<Namespace>) -> Act {
    match namespace {
        Some(namespace) if namespace.terminating => Act::Done(End::Waiting),
        _ => Act::DeleteNamespace,
    }
}

fn delete_target(view: &View, _target: &Target) -> Act {
    match view.namespace {
        None => Act::Done(End::Waiting),
        Some(_) => Act::DeleteTarget,
    }
}
