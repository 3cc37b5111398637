//! Status of a pair, its conditions, and the sentence for each: pure.

use std::time::Duration;

use apiclient::log_line::printable;

use crate::sync::{gate::GateHold, workqueue::ReconcileResult};

/// Characters of a [`PairCondition`]'s reason: there may be as many conditions as objects.
const MAX_REASON: usize = 200;
/// The wait before a held pair is reconciled again, in case an event was missed.
pub(crate) const HELD_INTERVAL: Duration = Duration::from_secs(300);
/// The wait before a waiting pair is reconciled again, without a request: where pairs share a namespace,
/// another pair may have found what the event would have brought.
const WAITING_INTERVAL: Duration = Duration::from_secs(5);

/// The result of an attempt that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PairStatus {
    /// Both sides agree.
    InSync,
    /// None of its objects are ours to handle.
    Nothing,
    /// A person paused it.
    Paused,
    /// Something else has to happen first; an event will follow.
    Waiting(Wait),
    /// A person should look at it.
    Held(Hold),
    /// The target belongs to another source.
    Conflict(Conflict),
    /// The target's server did not keep all that was written; another attempt follows at the next resync.
    Altered,
    /// Something else undoes what is written; the next attempt is made after this time.
    Fighting(Duration),
}

/// The event that a pair waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wait {
    /// The lists that say what else is in the target's namespace.
    NamespaceContents,
    TargetTerminating,
    NamespaceTerminating,
    /// The target's namespace does not exist, and may not be created.
    NoNamespace,
}

/// The reason why a pair is held for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Hold {
    PausedDeletion,
    /// The source is gone; the target stays for this long.
    GracePeriod(Duration),
    /// The source is gone, and orphans are kept.
    OrphanKept,
    /// The limit, or what happens around the source, holds the deletion.
    Gate(GateHold),
    /// The target is a copy, and nothing proves that it is this source's.
    Unidentified,
    /// A deletion does not finish.
    DeletionStuck,
}

/// The reason why the target cannot be the source's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Conflict {
    OtherSource,
    /// The target is nobody's copy, and -adopt does not let it become one.
    NotOurs,
    /// The source is itself a copy from one of the two clusters.
    Loop,
}

impl PairStatus {
    /// The condition of a pair with this status, unless it is in sync: the state, whether a person should look at it,
    /// and the reason.
    pub(crate) fn condition(self) -> Option<PairCondition> {
        let (state, needs_people, reason) = match self {
            Self::InSync | Self::Nothing => return None,
            Self::Paused => (PairState::Paused, false, "paused by an annotation"),
            Self::Waiting(wait) => (PairState::Waiting, wait == Wait::NoNamespace, wait.sentence()),
            Self::Held(Hold::Gate(hold @ GateHold::NextToken(_))) => {
                (PairState::Held, false, hold.sentence())
            }
            Self::Held(hold) => (PairState::Held, true, hold.sentence()),
            Self::Conflict(conflict) => (PairState::Conflict, true, conflict.sentence()),
            Self::Altered => {
                (PairState::Failing, true, "the target's server altered what was written")
            }
            Self::Fighting(_) => (
                PairState::Failing,
                true,
                "something else undoes each write, so that there is only one a minute",
            ),
        };
        let ends =
            matches!(self, Self::Held(Hold::GracePeriod(_) | Hold::Gate(GateHold::NextToken(_))));
        Some(PairCondition { ends, ..PairCondition::new(state, needs_people, reason) })
    }

    /// Returns whether it waits for a deletion to finish.
    pub(crate) fn awaits_deletion(self) -> bool {
        matches!(self, Self::Waiting(wait) if wait != Wait::NoNamespace)
    }

    /// The next attempt for a pair with this status; `grace` is that of orphans.
    pub(crate) fn requeue(self, grace: Duration) -> ReconcileResult {
        ReconcileResult::RequeueAfter(match self {
            Self::Held(Hold::GracePeriod(left) | Hold::Gate(GateHold::NextToken(left)))
            | Self::Fighting(left) => left,
            Self::Held(Hold::Gate(_)) => grace.clamp(Duration::from_secs(1), HELD_INTERVAL),
            Self::Held(Hold::DeletionStuck) | Self::Waiting(_) => WAITING_INTERVAL,
            Self::Held(_) => HELD_INTERVAL,
            _ => return ReconcileResult::Done,
        })
    }
}

impl Wait {
    fn sentence(self) -> &'static str {
        match self {
            Self::NamespaceContents => "what else is in the target's namespace is not known yet",
            Self::TargetTerminating => "the target is being deleted",
            Self::NamespaceTerminating => "the target's namespace is being deleted",
            Self::NoNamespace => "the target's namespace does not exist, and none is created",
        }
    }
}

impl Hold {
    fn sentence(self) -> &'static str {
        match self {
            Self::PausedDeletion => "it is being deleted but paused",
            Self::GracePeriod(_) => "the source is gone, the target stays for the grace period",
            Self::OrphanKept => "the source is gone, the target is kept",
            Self::Gate(hold) => hold.sentence(),
            Self::Unidentified => {
                "nothing proves that the target is a copy from this cluster: its mark has no uid of kube-system, or is an earlier version's"
            }
            Self::DeletionStuck => {
                "the target or its namespace has been terminating for more than 10 minutes, check its finalizers"
            }
        }
    }
}

impl GateHold {
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::NextToken(_) => "-max-deletions allows the deletion later",
            Self::TooMany => {
                "more is to be deleted at once than -max-deletions allows, all of it is kept until that is raised"
            }
            Self::NamespaceDeleted => {
                "the source's Namespace is being deleted, the target is kept until you delete it"
            }
            Self::KindDeleted => {
                "the source's CustomResourceDefinition is being deleted, the target is kept until you delete it"
            }
        }
    }
}

impl Conflict {
    fn sentence(self) -> &'static str {
        match self {
            Self::OtherSource => "the target is the copy of another object",
            Self::NotOurs => {
                "an object that is no copy has the target's name, and -adopt does not allow to take it"
            }
            Self::Loop => "it is itself a copy from the cluster that it would be copied to",
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

    /// What people have to change before another attempt is of use.
    pub(crate) fn refused(reason: &str) -> Self {
        Self::new(PairState::Failing, true, reason)
    }
}
