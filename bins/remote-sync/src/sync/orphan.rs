//! Orphans, that is targets whose source is gone: how long they stay, and how many may be deleted. Pure.
//!
//! A map of its own next to the memory of pairs: the orphans that wait are counted against one limit, and a new
//! session of the sources' cluster forgets all of them at once.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use crate::model::key::Pair;

/// The decision about an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OrphanVerdict {
    /// It is deleted.
    Delete,
    /// It stays for this long.
    Grace(Duration),
    /// More sources disappeared at once than people delete: all orphans stay.
    Tripped,
}

/// The orphans of one remote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OrphanTracker {
    grace: Duration,
    /// The most deletions within this time.
    most: (usize, Duration),
    /// Since when each has been an orphan.
    waiting: BTreeMap<Pair, Instant>,
    deleted: VecDeque<Instant>,
}

impl OrphanTracker {
    pub(crate) fn new(grace: Duration, most: (usize, Duration)) -> Self {
        Self { grace, most, waiting: BTreeMap::new(), deleted: VecDeque::new() }
    }

    /// Decides about a pair whose source was just read and does not exist. Waiting orphans count with deleted
    /// ones: if everything disappears at once, nothing is deleted at all.
    pub(crate) fn check(&mut self, pair: &Pair, now: Instant) -> OrphanVerdict {
        let since = *self.waiting.entry(pair.clone()).or_insert(now);
        let (most, window) = self.most;
        while self.deleted.front().is_some_and(|at| now.duration_since(*at) >= window) {
            self.deleted.pop_front();
        }
        if self.waiting.len() + self.deleted.len() > most {
            return OrphanVerdict::Tripped;
        }
        match self.grace.checked_sub(now.duration_since(since)) {
            None | Some(Duration::ZERO) => OrphanVerdict::Delete,
            Some(left) => OrphanVerdict::Grace(left),
        }
    }

    /// Counts a deletion.
    pub(crate) fn deleted(&mut self, pair: &Pair, now: Instant) {
        if self.waiting.remove(pair).is_some() {
            self.deleted.push_back(now);
        }
    }

    /// Forgets all orphans: the sources' cluster was disconnected.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Forgets a pair that is not an orphan (any more).
    pub(crate) fn forget(&mut self, pair: &Pair) {
        self.waiting.remove(pair);
    }

    /// The number of orphans that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::key::KindIndex;

    fn pair(name: &str) -> Pair {
        Pair { kind: KindIndex::FIRST, key: name.into() }
    }

    fn orphans(most: usize) -> OrphanTracker {
        OrphanTracker::new(Duration::from_secs(300), (most, Duration::from_secs(600)))
    }

    #[test]
    fn an_orphan_stays_for_its_grace() {
        let (mut orphans, start) = (orphans(10), Instant::now());
        let later = |seconds| start + Duration::from_secs(seconds);
        let grace = |seconds| OrphanVerdict::Grace(Duration::from_secs(seconds));
        assert_eq!(orphans.check(&pair("a"), start), grace(300));
        assert_eq!(orphans.check(&pair("a"), later(299)), grace(1));
        assert_eq!(orphans.check(&pair("a"), later(300)), OrphanVerdict::Delete);
        orphans.forget(&pair("a"));
        assert_eq!(orphans.check(&pair("a"), later(301)), grace(300), "it was back");
        orphans.clear();
        assert_eq!(orphans.waiting(), 0);
        assert_eq!(orphans.check(&pair("a"), later(900)), grace(300), "the cluster was away");
    }

    #[test]
    fn a_time_without_end_is_no_trouble() {
        let now = Instant::now();
        let mut orphans = OrphanTracker::new(Duration::MAX, (1, Duration::MAX));
        assert_eq!(orphans.check(&pair("a"), now), OrphanVerdict::Grace(Duration::MAX));
        orphans.deleted(&pair("a"), now);
        let later = now + Duration::from_secs(365 * 24 * 3600);
        assert_eq!(orphans.check(&pair("b"), later), OrphanVerdict::Tripped, "it counts for ever");
    }

    #[test]
    fn more_orphans_than_the_limit_all_stay() {
        let (mut orphans, start) = (orphans(10), Instant::now());
        let later = |seconds| start + Duration::from_secs(seconds);
        for name in 0..11 {
            orphans.check(&pair(&name.to_string()), start);
        }
        for name in 0..11 {
            let verdict = orphans.check(&pair(&name.to_string()), later(3600));
            assert_eq!(verdict, OrphanVerdict::Tripped);
        }
        orphans.forget(&pair("10"));
        assert_eq!(orphans.check(&pair("0"), later(3600)), OrphanVerdict::Delete);
    }

    #[test]
    fn those_that_went_count_for_the_window() {
        let (mut orphans, start) = (orphans(1), Instant::now());
        let later = |seconds| start + Duration::from_secs(seconds);
        orphans.check(&pair("a"), start);
        assert_eq!(orphans.check(&pair("a"), later(300)), OrphanVerdict::Delete);
        orphans.deleted(&pair("a"), later(300));
        assert_eq!(orphans.check(&pair("b"), later(301)), OrphanVerdict::Tripped);
        assert_eq!(orphans.check(&pair("b"), later(899)), OrphanVerdict::Tripped);
        assert_eq!(orphans.waiting(), 1);
        assert_eq!(orphans.check(&pair("b"), later(900)), OrphanVerdict::Delete);
    }
}
