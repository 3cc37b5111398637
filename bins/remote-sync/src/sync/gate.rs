//! Deletion gate of one remote: everything destructive passes it, whatever the reason. Pure.
//!
//! It counts per kind: what was deleted lately, and what waits to be. More than people delete means that something
//! went wrong at the source, so nothing of that kind is deleted until a person allows it
//! ([`ledger`](crate::sync::ledger)). Namespaces count as a kind of their own.

use std::{
    collections::BTreeMap,
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::model::key::{KindIndex, Pair};

/// Parts of the period after which a deletion no longer counts: deletions within one part are kept as one number.
const PARTS: u32 = 16;

/// A thing that counts: the targets of a kind, or with `None` namespaces.
pub(crate) type Counted = Option<KindIndex>;

/// The reason for a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DeletionReason {
    /// The source is terminating, or the target is created anew.
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
    /// A person has to allow it.
    Held(GateHold),
}

/// The reason why a deletion is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GateHold {
    /// More is to be deleted at once than people delete.
    TooMany,
    NamespaceDeleted,
    KindDeleted,
}

/// The limits of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GateLimits {
    /// How long a target must be without a source.
    pub(crate) grace: Duration,
    /// The most deletions of a kind within `within`.
    pub(crate) most: usize,
    pub(crate) within: Duration,
}

/// The deletions of one remote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeletionGate {
    limits: GateLimits,
    counters: Vec<(Counted, Counter)>,
    /// Deletions that a person allowed beyond the limit, and that did not happen yet.
    allowed: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Counter {
    /// Those that were asked for.
    waiting: BTreeMap<Arc<str>, Waiting>,
    /// Numbers of deletions, by the start of the part of the period that they happened in.
    deleted: Vec<(Instant, usize)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    since: Instant,
    hold: Option<GateHold>,
    /// It has used up one of the deletions that a person allowed.
    allowed: bool,
    /// It may be under way, and counts for whoever reads the ledger.
    passed: bool,
    /// Its request was sent, and no answer said what became of it.
    sent: bool,
}

impl DeletionGate {
    pub(crate) fn new(limits: GateLimits) -> Self {
        Self { limits, counters: Vec::new(), allowed: 0 }
    }

    /// Decides about a deletion. Those that wait count with those that happened: if everything is to go at once,
    /// nothing more goes.
    pub(crate) fn ask(
        &mut self,
        counted: Counted,
        key: &Arc<str>,
        reason: DeletionReason,
        now: Instant,
    ) -> GateVerdict {
        let GateLimits { grace, most, within } = self.limits;
        let counter = counter_of(&mut self.counters, counted);
        let lately = counter.deleted_within(within, now);
        let others = counter.waiting.len() - usize::from(counter.waiting.contains_key(key));
        let too_many = lately.saturating_add(others + 1) > most;
        let new = || Waiting { since: now, hold: None, allowed: false, passed: false, sent: false };
        let waiting = counter.waiting.entry(key.clone()).or_insert_with(new);
        let left = grace.saturating_sub(now.duration_since(waiting.since));
        let hold = match reason {
            DeletionReason::NamespaceDeleted => Some(GateHold::NamespaceDeleted),
            DeletionReason::KindDeleted => Some(GateHold::KindDeleted),
            DeletionReason::Wanted | DeletionReason::SourceGone if too_many => {
                Some(GateHold::TooMany)
            }
            DeletionReason::Wanted | DeletionReason::SourceGone => None,
        };
        if hold.is_some() && !waiting.allowed && self.allowed > 0 {
            self.allowed -= 1;
            waiting.allowed = true;
        }
        waiting.hold = hold.filter(|_| !waiting.allowed);
        let verdict = match waiting.hold {
            Some(hold) => GateVerdict::Held(hold),
            None if reason == DeletionReason::SourceGone && !left.is_zero() => {
                GateVerdict::Grace(left)
            }
            None => GateVerdict::Open,
        };
        waiting.passed = verdict == GateVerdict::Open;
        verdict
    }

    /// Counts a deletion. One that a person allowed does not use up the limit.
    pub(crate) fn deleted(&mut self, counted: Counted, key: &str, now: Instant) {
        let within = self.limits.within;
        let counter = counter_of(&mut self.counters, counted);
        if counter.waiting.remove(key).is_none_or(|waiting| !waiting.allowed) {
            counter.count(within, now, 1);
        }
    }

    /// Records that the request for a deletion is about to be sent.
    pub(crate) fn sends(&mut self, counted: Counted, key: &str) {
        let counter = counter_of(&mut self.counters, counted);
        counter.waiting.get_mut(key).into_iter().for_each(|waiting| waiting.sent = true);
    }

    /// Forgets a pair that needs no deletion (any more).
    pub(crate) fn forget(&mut self, pair: &Pair, now: Instant) {
        let within = self.limits.within;
        for counted in [Some(pair.kind), None] {
            let counter = counter_of(&mut self.counters, counted);
            let Some(waiting) = counter.waiting.remove(&pair.key) else { continue };
            self.allowed += counter.give_up(&waiting, within, now);
        }
    }

    /// Ends the wait of a pair whose source is there: should it go again, its grace starts over. What was sent may have
    /// happened, and still counts.
    pub(crate) fn returned(&mut self, pair: &Pair, now: Instant) {
        let waiting = counter_of(&mut self.counters, Some(pair.kind)).waiting.get_mut(&pair.key);
        match waiting {
            Some(waiting) if waiting.sent => waiting.since = now,
            Some(_) => self.forget(pair, now),
            None => {}
        }
    }

    /// Forgets what waits: the sources' cluster was disconnected, and a source that was missing may be back.
    pub(crate) fn clear(&mut self, now: Instant) {
        let within = self.limits.within;
        for (_, counter) in &mut self.counters {
            for waiting in mem::take(&mut counter.waiting).into_values() {
                self.allowed += counter.give_up(&waiting, within, now);
            }
        }
    }

    /// Lets this many more deletions pass.
    pub(crate) fn allow(&mut self, more: usize) {
        self.allowed = self.allowed.saturating_add(more);
    }

    /// Deletions that were allowed and are not under way yet.
    pub(crate) fn allowed(&self) -> usize {
        let waiting = self.counters.iter().flat_map(|(_, counter)| counter.waiting.values());
        self.allowed + waiting.filter(|waiting| waiting.allowed && !waiting.passed).count()
    }

    /// The number of deletions that wait, for their grace or for a person.
    pub(crate) fn waiting(&self) -> usize {
        self.counters.iter().map(|(_, counter)| counter.waiting.len()).sum()
    }

    /// The number of held deletions, and the reasons.
    pub(crate) fn held(&self) -> (usize, Vec<GateHold>) {
        let waiting = self.counters.iter().flat_map(|(_, counter)| counter.waiting.values());
        let (mut number, mut reasons) = (0, Vec::new());
        for hold in waiting.filter_map(|waiting| waiting.hold) {
            number += 1;
            if !reasons.contains(&hold) {
                reasons.push(hold);
            }
        }
        (number, reasons)
    }

    /// What counts at present, with its age; what may be under way counts as done.
    pub(crate) fn recent(&self, now: Instant) -> Vec<(Counted, Duration, usize)> {
        let within = self.limits.within;
        let mut recent = Vec::new();
        for (counted, counter) in &self.counters {
            let passed = counter.waiting.values().filter(|it| it.passed && !it.allowed).count();
            let done =
                counter.deleted.iter().map(|(at, number)| (now.duration_since(*at), *number));
            let all = done.chain([(Duration::ZERO, passed)]);
            let counts = all.filter(|(age, number)| *age < within && *number > 0);
            recent.extend(counts.map(|(age, number)| (*counted, age, number)));
        }
        recent
    }

    /// Takes over what an earlier process counted, this long ago.
    pub(crate) fn restore(&mut self, counted: Counted, age: Duration, number: usize, now: Instant) {
        let within = self.limits.within;
        // Not representable so soon after the machine's start: it counts as new.
        let at = now.checked_sub(age.min(within)).unwrap_or(now);
        counter_of(&mut self.counters, counted).count(within, at, number);
    }
}

/// The counter of these, of which there are a few.
fn counter_of(counters: &mut Vec<(Counted, Counter)>, counted: Counted) -> &mut Counter {
    let known = counters.iter().position(|(of, _)| *of == counted);
    let index = known.unwrap_or_else(|| {
        counters.push((counted, Counter::default()));
        counters.len() - 1
    });
    &mut counters[index].1
}

impl Counter {
    /// Counts a deletion whose answer was lost: it may have happened. Returns the allowance that one which never
    /// happened did not use.
    fn give_up(&mut self, waiting: &Waiting, within: Duration, now: Instant) -> usize {
        if waiting.sent && !waiting.allowed {
            self.count(within, now, 1);
        }
        usize::from(waiting.allowed && !waiting.sent)
    }

    fn deleted_within(&mut self, within: Duration, now: Instant) -> usize {
        self.deleted.retain(|(at, _)| now.duration_since(*at) < within);
        self.deleted.iter().fold(0, |sum, (_, number)| sum.saturating_add(*number))
    }

    fn count(&mut self, within: Duration, at: Instant, number: usize) {
        let open = self.deleted.last_mut();
        match open.filter(|(part, _)| at.saturating_duration_since(*part) < within / PARTS) {
            Some((_, count)) => *count = count.saturating_add(number),
            None => self.deleted.push((at, number)),
        }
    }
}

#[cfg(test)]
mod tests;
