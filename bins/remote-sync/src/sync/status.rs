//! Why a pair is not in sync, and what follows from that: pure.

use std::{ops::ControlFlow, time::Duration};

use apiclient::{log_line::printable, workqueue::ReconcileResult};

/// Characters of a [`PairCondition`]'s reason: there may be as many conditions as objects.
const MAX_REASON: usize = 200;
/// The wait before a held pair is reconciled again, in case an event was missed.
const HELD_INTERVAL: Duration = Duration::from_secs(300);
/// The wait before a waiting pair is reconciled again, without a request: where pairs share a namespace,
/// another pair may have found what the event would have brought.
const WAITING_INTERVAL: Duration = Duration::from_secs(5);

/// How an attempt goes on after an action; if it ends, with the reason for which the pair is not in sync.
pub(crate) type Next = ControlFlow<Reason>;

/// Why a pair is not in sync although no request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    Paused,
    TargetTerminating,
    NamespaceTerminating,
    /// The target's namespace does not exist, and may not be created.
    NoNamespace,
    PausedDeletion,
    /// The source is gone; the target stays for this long.
    GracePeriod(Duration),
    /// The source is gone, and orphans are kept.
    OrphanKept,
    /// The limit lets the deletion pass after this time.
    NextToken(Duration),
    /// More deletions wait than the limit.
    TooMany,
    /// The source's Namespace or CustomResourceDefinition is terminating or gone.
    Swept,
    /// The target is a copy, and nothing proves that it is this source's.
    Unidentified,
    OtherSource,
    /// The target is nobody's copy, and -adopt does not let it become one.
    NotOurs,
    /// The source is itself a copy from one of the two clusters.
    Loop,
    /// This write is due.
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

    /// The next attempt without an event; `grace` is that of orphans, `None` if they stay.
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

    /// Returns whether the deletion counts as waiting for the limit.
    pub(crate) fn is_of_limit(self) -> bool {
        matches!(self, Self::GracePeriod(_) | Self::NextToken(_) | Self::TooMany | Self::Swept)
    }

    /// The state, whether a person should look at the pair and gets an Event, the wait before the next attempt without
    /// an event, and the sentence.
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

/// The state of a pair in one word, as in logs, metrics and `/debug/state`.
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

/// The state of a pair that is not in sync, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PairCondition {
    pub(crate) state: PairState,
    pub(crate) reason: String,
    /// A person should look at it.
    pub(crate) needs_people: bool,
    /// It will end by itself after a while.
    pub(crate) ends: bool,
}

impl PairCondition {
    /// `reason` may quote a server.
    pub(crate) fn new(state: PairState, needs_people: bool, reason: &str) -> Self {
        Self { state, reason: printable(reason, MAX_REASON), needs_people, ends: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
