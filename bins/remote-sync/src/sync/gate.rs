//! Limit for the deletions of one remote: a token bucket for each kind. Pure.
//!
//! More that wait than people delete at once mean that something went wrong at the source: then all of that kind wait.
//! Namespaces count as a kind of their own.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::token_bucket::TokenBucket;

use crate::model::key::{KindIndex, Pair};

/// A thing that counts: the targets of a kind, or with `None` namespaces.
pub(crate) type Counted = Option<KindIndex>;

/// The reason for a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DeletionReason {
    /// The source is terminating.
    Wanted,
    /// The source is gone, which is no order to delete anything.
    SourceGone,
    /// The source is terminating because its Namespace is.
    NamespaceDeleted,
    /// The source is terminating because its kind is.
    KindDeleted,
}

/// The decision about a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GateVerdict {
    Open,
    /// The target stays for this long.
    Grace(Duration),
    Held(GateHold),
}

/// The reason why a deletion is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GateHold {
    /// The limit lets the next one pass after this time.
    NextToken(Duration),
    /// More wait than the limit.
    TooMany,
    NamespaceDeleted,
    KindDeleted,
}

impl GateHold {
    /// Returns whether the source is only a part of what is being deleted.
    pub(crate) fn is_of_more(self) -> bool {
        matches!(self, Self::NamespaceDeleted | Self::KindDeleted)
    }
}

/// The limits of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GateLimits {
    /// How long a target must be without a source.
    pub(crate) grace: Duration,
    /// The most deletions of a kind at once, and within `within`.
    pub(crate) most: u32,
    pub(crate) within: Duration,
}

/// The deletions of one remote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeletionGate {
    limits: GateLimits,
    kinds: Vec<(Counted, KindDeletions)>,
}

/// The deletions of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct KindDeletions {
    bucket: TokenBucket,
    waiting: BTreeMap<Arc<str>, Waiting>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    since: Instant,
    hold: Option<GateHold>,
    /// It has its token: an attempt that failed needs no second one.
    has_token: bool,
}

impl DeletionGate {
    pub(crate) fn new(limits: GateLimits) -> Self {
        Self { limits, kinds: Vec::new() }
    }

    /// Decides about a deletion. `restarted`: another process started within the limit's period, and may have used up
    /// all tokens but one.
    pub(crate) fn ask(
        &mut self,
        (counted, key): (Counted, &Arc<str>),
        reason: DeletionReason,
        restarted: bool,
        now: Instant,
    ) -> GateVerdict {
        let GateLimits { grace, most, .. } = self.limits;
        let KindDeletions { bucket, waiting } = self.of(counted, restarted, now);
        let new = Waiting { since: now, hold: None, has_token: false };
        let own = waiting.entry(key.clone()).or_insert(new).clone();
        // More than the limit need not be counted.
        let enough = most as usize + 1;
        let number = waiting.values().filter(|waiting| !waiting.has_token).take(enough).count();
        let left = grace.saturating_sub(now.saturating_duration_since(own.since));
        let mut take = || match bucket.take(now) {
            Ok(()) => GateVerdict::Open,
            Err(wait) => GateVerdict::Held(GateHold::NextToken(wait)),
        };
        let verdict = match reason {
            DeletionReason::NamespaceDeleted => GateVerdict::Held(GateHold::NamespaceDeleted),
            DeletionReason::KindDeleted => GateVerdict::Held(GateHold::KindDeleted),
            _ if !own.has_token && number == enough => GateVerdict::Held(GateHold::TooMany),
            DeletionReason::SourceGone if !left.is_zero() => GateVerdict::Grace(left),
            _ if own.has_token => GateVerdict::Open,
            _ => take(),
        };
        let hold = match verdict {
            GateVerdict::Held(hold) => Some(hold),
            // Until the source's surroundings were read again.
            GateVerdict::Open => own.hold.filter(|hold| hold.is_of_more()),
            GateVerdict::Grace(_) => None,
        };
        let has_token = own.has_token || verdict == GateVerdict::Open;
        waiting.insert(key.clone(), Waiting { since: own.since, hold, has_token });
        verdict
    }

    /// Forgets a pair that needs no deletion (any more): should its source go again, its grace starts over.
    pub(crate) fn forget(&mut self, pair: &Pair) {
        for (_, kind) in self.kinds.iter_mut().filter(|(of, _)| of.is_none_or(|of| of == pair.kind))
        {
            kind.waiting.remove(&pair.key);
        }
    }

    /// Starts all grace periods over: a source that was missing may be back.
    pub(crate) fn restart_grace(&mut self, now: Instant) {
        let waiting = self.kinds.iter_mut().flat_map(|(_, kind)| kind.waiting.values_mut());
        waiting.for_each(|waiting| waiting.since = now);
    }

    /// Why the deletion of this pair was held, if it was.
    pub(crate) fn hold(&self, counted: Counted, key: &str) -> Option<GateHold> {
        self.kinds.iter().find(|(of, _)| *of == counted)?.1.waiting.get(key)?.hold
    }

    /// The number of deletions that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.kinds.iter().map(|(_, kind)| kind.waiting.len()).sum()
    }

    /// The number of deletions that wait for a person, and the reasons.
    pub(crate) fn held(&self) -> (usize, Vec<GateHold>) {
        let waiting = self.kinds.iter().flat_map(|(_, kind)| kind.waiting.values());
        let (mut number, mut reasons) = (0, Vec::new());
        for hold in waiting.filter_map(|waiting| waiting.hold) {
            if matches!(hold, GateHold::NextToken(_)) {
                continue;
            }
            number += 1;
            if !reasons.contains(&hold) {
                reasons.push(hold);
            }
        }
        (number, reasons)
    }

    fn of(&mut self, counted: Counted, restarted: bool, now: Instant) -> &mut KindDeletions {
        let known = self.kinds.iter().position(|(of, _)| *of == counted);
        let index = known.unwrap_or_else(|| {
            let GateLimits { most, within, .. } = self.limits;
            let bucket = TokenBucket::new(within / most.max(1), most, now);
            let bucket = if restarted { bucket.with_tokens(1) } else { bucket };
            self.kinds.push((counted, KindDeletions { bucket, waiting: BTreeMap::new() }));
            self.kinds.len() - 1
        });
        &mut self.kinds[index].1
    }
}

#[cfg(test)]
mod tests;
