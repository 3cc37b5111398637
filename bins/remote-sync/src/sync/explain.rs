//! Explanation of a pair: both objects in words, and what a dry run would do next, and why.

use std::{cell::RefCell, fmt::Write, time::Instant};

use crate::{
    model::{
        key::Pair,
        object::{Cached, Finalizers, SourceObject, TargetObject},
    },
    sync::{
        context::SyncContext,
        decide::SyncAction,
        difference::hides_values,
        gate::DeletionReason,
        observed::{Destroyed, Observed, Ownership, SyncRules},
        pair::PairContext,
        reconcile::{Step, reconcile},
        remote::RemoteSync,
        status::{PairCondition, PairState},
        workqueue::WorkItem,
    },
};

/// The explanation of a pair, in lines; `None` if neither of its objects exists.
pub(crate) fn explain(context: &SyncContext, remote: &RemoteSync, pair: &Pair) -> Option<String> {
    let item = WorkItem { pair: pair.clone(), since: Instant::now(), urgent: true, large: true };
    let seen = PairContext::new(context, remote, &item);
    let (mut text, mut has_source) = (String::new(), false);
    // Writing into a String cannot fail.
    if let Some(pair) = &seen {
        let observed = pair.observe(Instant::now());
        if observed.source.is_none() && observed.target.is_none() {
            return None;
        }
        has_source = observed.source.is_some();
        let none = || "there is none".into();
        let source = observed.source.as_ref().map_or_else(none, source);
        let target =
            observed.target.as_ref().map_or_else(none, |it| target(it, &observed, &pair.rules()));
        let [from, to] = remote.clusters().map(|cluster| cluster.name());
        let _ = writeln!(text, "  source {} ({from}): {source}", pair.source_key);
        let _ = writeln!(text, "  target {} ({to}): {target}", pair.target_key);
    }
    if let Some(obstacle) = remote.obstacle(pair.kind) {
        let _ = writeln!(text, "  nothing is done: {obstacle}");
        return Some(text);
    }
    let steps = RefCell::new((text, None));
    let tell = |step: &Step<'_>| {
        let (text, last) = &mut *steps.borrow_mut();
        add_step(step, text);
        *last = Some(step.simulated);
    };
    reconcile(context, remote, &item, &tell);
    let (mut text, last) = steps.into_inner();
    let _ = writeln!(text, "  then: {}", end(remote.recall(pair).condition(), last, has_source));
    Some(text)
}

/// What comes after the last step, if that was [`simulated`](Step::simulated).
fn end(condition: Option<&PairCondition>, simulated: Option<bool>, has_source: bool) -> String {
    match (condition, simulated) {
        (Some(condition), _) => format!("{}: {}", condition.state.as_str(), condition.reason),
        (None, Some(false)) => "what the clusters' answer to that calls for".into(),
        (None, _) if !has_source => "nothing, there is no pair".into(),
        (None, _) => PairState::InSync.as_str().into(),
    }
}

fn add_step(step: &Step<'_>, text: &mut String) {
    let Step { pair, action, observed, differences, .. } = step;
    let _ = writeln!(text, "  next: {}, as {}", action.words(), reason(*action, observed));
    let hidden = hides_values(pair.kind());
    for difference in differences {
        let _ = writeln!(text, "        {}", difference.in_full(hidden));
    }
}

/// The reason for an action on a pair that looks like this.
fn reason(action: SyncAction, observed: &Observed) -> &'static str {
    let gone = observed.source.is_none();
    match action {
        SyncAction::AddFinalizer => "the source must not go before its target",
        SyncAction::CompareContents => "the target is nobody's copy, and differs from the source",
        SyncAction::Adopt => "the target is nobody's copy, and -adopt lets it become one",
        SyncAction::UpdateMark => "the mark names another cluster or instance",
        SyncAction::UploadStatus => "the source has another status than the target",
        SyncAction::UploadSecret(_) => "it differs from what was uploaded",
        SyncAction::CheckSecret(_) => "it is not known whether its copy is as it was uploaded",
        SyncAction::CreateNamespace => "the target's namespace does not exist",
        SyncAction::Create => "there is no target",
        SyncAction::Update { content: true, .. } => "the contents differ",
        SyncAction::Update { content: false, .. } => "labels or annotations differ",
        SyncAction::RecordGenerations => "the source does not say what was copied of it",
        SyncAction::RemoveRecords { .. } => "-track leaves it out",
        SyncAction::ConfirmSourceGone => "the source is in no list",
        SyncAction::ConfirmTargetGone => "the target is in no list",
        SyncAction::CheckGate(Destroyed::Target, DeletionReason::SourceGone) => {
            "the source is gone"
        }
        SyncAction::CheckGate(..) if gone => "both objects are gone, or the source is",
        SyncAction::CheckGate(..) => "the source is being deleted, or its target made anew",
        SyncAction::CheckNamespace => "it was created for targets, and no pair needs it",
        SyncAction::AnnotateOrphan => "the source is gone, and orphans are kept",
        SyncAction::DeleteNamespace => "it was created for targets, and nothing is in it",
        SyncAction::DeleteTarget if gone => "the source is gone",
        SyncAction::DeleteTarget => "the source is being deleted",
        SyncAction::RemoveFinalizer if gone => "the source is not selected any more",
        SyncAction::RemoveFinalizer => "the source is being deleted, and its target is gone",
        SyncAction::Done(_) => "there is nothing to do",
    }
}

/// The source in words.
fn source(source: &Cached<SourceObject>) -> String {
    let SourceObject { state, finalizers, generations, .. } = &source.value;
    let mut words = vec![format!("generation {}", state.generation)];
    if matches!(finalizers, Finalizers::Ours(_)) {
        words.push("with the finalizer".into());
    }
    if let (Some(remote), Some(local)) = (generations.remote, generations.local) {
        words.push(format!("generation {remote} was copied as the target's {local}"));
    }
    words.extend(state_words(state.terminating, state.paused));
    words.join(", ")
}

/// The target in words.
fn target(target: &Cached<TargetObject>, observed: &Observed, rules: &SyncRules) -> String {
    let TargetObject { state, orphaned, copy_of, .. } = &target.value;
    let mut words = vec![format!("generation {}", state.generation)];
    if rules.mode.records_origin() {
        words.push(match (observed.ownership(rules), copy_of) {
            (Ownership::Ours, Some(copy)) => {
                format!("a copy of the source's generation {}", copy.generation)
            }
            (Ownership::Foreign, _) => "a copy of another object".into(),
            (Ownership::Unproven, _) => "a copy that may be of another object".into(),
            _ => "nobody's copy".into(),
        });
    }
    words.extend(orphaned.then(|| "marked as an orphan".to_owned()));
    words.extend(state_words(state.terminating, state.paused));
    words.join(", ")
}

fn state_words(terminating: bool, paused: bool) -> impl Iterator<Item = String> {
    let words = [(terminating, "being deleted"), (paused, "paused")];
    words.into_iter().filter(|(is, _)| *is).map(|(_, words)| words.to_owned())
}
