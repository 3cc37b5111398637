//! Why a pair is not in sync, and what follows from it. Pure.

use std::{ops::ControlFlow, time::Duration};

use apiclient::{log_line::printable, workqueue::ReconcileResult};

/// The name of a deletion of the target, in metrics and reasons.
pub(crate) const DELETE_TARGET: &str = "delete_target";
/// Maximum length of a [`PairCondition`]'s reason, in characters: there may be as many conditions as objects.
const MAX_REASON: usize = 200;
/// The wait before a held pair is reconciled again, in case an event was lost.
const HELD_INTERVAL: Duration = Duration::from_secs(300);
/// The wait before a waiting pair is reconciled again, without a request: in a shared namespace, another pair may
/// already have seen what the event would report.
const WAITING_INTERVAL: Duration = Duration::from_secs(5);

/// How an attempt continues after an action. If it ends, the reason why the pair is not in sync.
pub(crate) type Next = ControlFlow<Reason>;

/// Why a pair is not in sync although no request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    Paused,
    TargetTerminating,
    NamespaceTerminating,
    /// The target's namespace does not exist, and is not created.
    NoNamespace,
    PausedDeletion,
    /// The source is gone; the target stays for this time.
    GracePeriod(Duration),
    /// The source is gone, and orphans are kept.
    OrphanKept,
    /// The limit lets the deletion pass after this time.
    NextToken(Duration),
    /// More deletions wait than the limit allows.
    TooMany,
    /// The source's Namespace is terminating or gone, or its CustomResourceDefinition is terminating.
    Swept,
    /// Nothing proves that the target, a copy, is this source's.
    Unidentified,
    OtherSource,
    /// The target is not a copy, and -adopt does not allow adopting it.
    NotOurs,
    /// The source is itself a copy from one of the two clusters.
    Loop,
    /// A dry run did not send this write.
    DryRun(&'static str),
}

impl Reason {
    pub(crate) fn condition(self) -> PairCondition {
        let (state, needs_people, _, sentence) = self.row();
        let ends = matches!(self, Self::GracePeriod(_) | Self::NextToken(_));
        let due = if let Self::DryRun(write) = self { write } else { "" };
        PairCondition {
            ends,
            ..PairCondition::new(state, needs_people, &format!("{sentence}{due}"))
        }
    }

    /// When to reconcile again without an event. `grace` is the grace period of orphans; `None` keeps them.
    pub(crate) fn requeue(self, grace: Option<Duration>) -> ReconcileResult {
        let wait = match self {
            Self::TooMany | Self::Swept => {
                let grace = grace.unwrap_or(HELD_INTERVAL);
                Some(grace.clamp(Duration::from_secs(1), HELD_INTERVAL))
            }
            reason => reason.row().2,
        };
        wait.map_or(ReconcileResult::Done, ReconcileResult::RequeueAfter)
    }

    /// Returns whether the deletion stays registered with the limit.
    pub(crate) fn is_of_limit(self) -> bool {
        match self {
            Self::GracePeriod(_) | Self::NextToken(_) | Self::TooMany | Self::Swept => true,
            // A dry run keeps the token of a deletion: the next pass must not take another one.
            Self::DryRun(write) => write == DELETE_TARGET,
            _ => false,
        }
    }

    /// The state; whether a person should act and gets an Event; the wait before the next attempt without an event; and
    /// the sentence.
    #[rustfmt::skip]
    fn row(self) -> (PairState, bool, Option<Duration>, &'static str) {
        use PairState::{Conflict, Held, Paused, Waiting};
        let (held, waiting) = (Some(HELD_INTERVAL), Some(WAITING_INTERVAL));
        match self {
            Self::Paused => (Paused, false, None,
                "paused by an annotation"),
            Self::TargetTerminating => (Waiting, false, waiting,
                "the target is being deleted; if that takes long, check its finalizers"),
            Self::NamespaceTerminating => (Waiting, false, waiting,
                "the target's namespace is being deleted"),
            Self::NoNamespace => (Waiting, true, waiting,
                "the target's namespace does not exist, and none is created"),
            Self::PausedDeletion => (Held, true, held,
                "it is being deleted but paused"),
            Self::GracePeriod(left) => (Held, true, Some(left),
                "the source is gone, the target stays for the grace period"),
            Self::OrphanKept => (Held, true, held,
                "the source is gone, the target is kept"),
            Self::NextToken(left) => (Held, false, Some(left),
                "-max-deletions allows the deletion later"),
            Self::TooMany => (Held, true, held,
                "more is to be deleted at once than -max-deletions allows, all of it is kept until that is raised"),
            Self::Swept => (Held, true, held,
                "the source's Namespace or CustomResourceDefinition is being deleted or gone, the target stays until it is back, or you delete it"),
            Self::Unidentified => (Held, true, held,
                "nothing proves that the target is a copy from this cluster: its mark has no uid of kube-system, or is an earlier version's"),
            Self::OtherSource => (Conflict, true, None,
                "the target is the copy of another object"),
            Self::NotOurs => (Conflict, true, None,
                "the target exists and is not managed by remote-sync, and -adopt does not allow adopting it"),
            Self::Loop => (Conflict, true, None,
                "it is itself a copy from the cluster that it would be copied to"),
            Self::DryRun(_) => (Held, false, None,
                "dry run, nothing written: "),
        }
    }
}

/// The state of a pair as in logs, metrics and `/debug/state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PairState {
    InSync,
    Paused,
    Waiting,
    Held,
    Conflict,
    Failing,
}

impl PairState {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::InSync => "insync",
            Self::Paused => "paused",
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Conflict => "conflict",
            Self::Failing => "failing",
        }
    }
}

/// Why a pair is not in sync.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PairCondition {
    pub(crate) state: PairState,
    pub(crate) reason: String,
    /// Whether a person should act.
    pub(crate) needs_people: bool,
    /// Whether the condition ends without a change, after a time.
    pub(crate) ends: bool,
}

impl PairCondition {
    /// `reason` may quote a server: it is sanitized.
    pub(crate) fn new(state: PairState, needs_people: bool, reason: &str) -> Self {
        Self { state, reason: printable(reason, MAX_REASON), needs_people, ends: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_dry_run_only_a_deletion_stays_with_the_limit() {
        assert!(Reason::DryRun(DELETE_TARGET).is_of_limit());
        // The source is back.
        assert!(!Reason::DryRun("update_target").is_of_limit());
    }

    #[test]
    fn a_held_deletion_is_decided_again_after_the_grace_period() {
        for (grace, wait) in [(None, 300), (Some(0), 1), (Some(60), 60), (Some(3600), 300)] {
            let again = Reason::TooMany.requeue(grace.map(Duration::from_secs));
            assert_eq!(
                again,
                ReconcileResult::RequeueAfter(Duration::from_secs(wait)),
                "{grace:?}"
            );
        }
    }
}
