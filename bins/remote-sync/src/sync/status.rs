//! Status of a pair, its conditions, and the sentence for each: pure.

use std::time::Duration;

use apiclient::log_line::printable;

use crate::sync::gate::GateHold;

/// Characters of a [`PairCondition`]'s reason: there may be as many conditions as objects.
const LONGEST_REASON: usize = 200;

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
    /// The condition of a pair with this status, unless it is in sync.
    pub(crate) fn condition(self) -> Option<PairCondition> {
        let (state, reason) = match self {
            Self::InSync | Self::Nothing => return None,
            Self::Paused => (PairState::Paused, "paused by an annotation"),
            Self::Waiting(wait) => (PairState::Waiting, wait.sentence()),
            Self::Held(hold) => (PairState::Held, hold.sentence()),
            Self::Conflict(conflict) => (PairState::Conflict, conflict.sentence()),
            Self::Altered => (PairState::Degraded, "the target's server altered what was written"),
            Self::Fighting(_) => (
                PairState::Fighting,
                "something else undoes each write, so that there is only one a minute",
            ),
        };
        let ends =
            matches!(self, Self::Held(Hold::GracePeriod(_) | Hold::Gate(GateHold::NextToken(_))));
        Some(PairCondition { ends, ..PairCondition::new(state, reason) })
    }

    /// Returns whether a person should look at it.
    pub(crate) fn needs_people(self) -> bool {
        let waits = matches!(self, Self::Waiting(Wait::NoNamespace));
        let is_held =
            matches!(self, Self::Held(hold) if !matches!(hold, Hold::Gate(GateHold::NextToken(_))));
        waits || is_held || matches!(self, Self::Conflict(_) | Self::Altered | Self::Fighting(_))
    }

    /// Returns whether it waits for a deletion to finish.
    pub(crate) fn awaits_deletion(self) -> bool {
        matches!(self, Self::Waiting(wait) if wait != Wait::NoNamespace)
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
    /// It was in sync when it was seen last, but cannot be read or reconciled at present.
    Unknown,
    Paused,
    Waiting,
    Held,
    Conflict,
    /// The same write would be rejected or altered again.
    Degraded,
    /// Another writer undoes ours.
    Fighting,
    /// It is being retried.
    Failing,
    TooLarge,
}

impl PairState {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::InSync => "insync",
            Self::Unknown => "unknown",
            Self::Paused => "paused",
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Conflict => "conflict",
            Self::Degraded => "degraded",
            Self::Fighting => "fighting",
            Self::Failing => "failing",
            Self::TooLarge => "toolarge",
        }
    }
}

/// The state of a pair that is not in sync, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PairCondition {
    pub(crate) state: PairState,
    pub(crate) reason: String,
    /// It will end by itself after a while.
    pub(crate) ends: bool,
}

impl PairCondition {
    /// `reason` may quote a server.
    pub(crate) fn new(state: PairState, reason: &str) -> Self {
        Self { state, reason: printable(reason, LONGEST_REASON), ends: false }
    }
}
