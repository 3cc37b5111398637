//! Order of a workqueue: which pair is next, when, and after which backoff. Pure.
//!
//! Failures are counted here and not in the memory of pairs: like client-go's ItemExponentialFailureRateLimiter
//! they belong to the queue, and a pair's memory outlives a reconnect while its failures do not.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::{Duration, Instant},
};

use crate::{
    cache::retry::{self, RetryClass},
    model::key::{KindIndex, Pair, PerKind},
};

/// The longest delay: later instants may not be representable.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Failures in a row after which a retry no longer comes before the backlog.
const HOPEFUL: u32 = 3;

/// The order in which pairs are taken; those of one rank in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rank {
    /// With large objects, of which one is processed at a time.
    Large,
    /// With a recent event.
    Urgent,
    /// From a list.
    Backlog,
}

/// The state of a pair in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ItemState {
    /// Waiting with this number.
    Ready(Rank, u64),
    /// Its kind cannot be reconciled; whether it was urgent, or has become so.
    Parked(bool),
    Processing,
    /// It changed while it was being processed.
    Dirty,
    /// Until this time.
    Delayed(Instant),
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReconcileResult {
    /// Done; earlier failures are forgotten.
    Done,
    /// Done for now; reconcile again after this time.
    RequeueAfter(Duration),
    /// Nothing was done, as another pair is urgent: it is the next one of the backlog.
    Yielded,
    /// Its objects are large: it waits until no other such pair is processed.
    RequeueAsLarge,
    /// Failed; retried after the class's backoff, but not before this time.
    Failed(RetryClass, Duration),
}

/// A pair for a worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WorkItem {
    pub(crate) pair: Pair,
    /// The time at which it was enqueued.
    pub(crate) since: Instant,
    /// It comes before what a list returned.
    pub(crate) urgent: bool,
    /// Its objects may be large: only one such pair of each remote is processed at a time.
    pub(crate) large: bool,
}

/// The number of pairs in a queue, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueDepth {
    pub(crate) queued: usize,
    pub(crate) parked: usize,
    pub(crate) running: usize,
    pub(crate) failing: usize,
}

impl QueueDepth {
    /// The numbers with the words for them.
    pub(crate) fn by_state(&self) -> [(&'static str, usize); 4] {
        [
            ("queued", self.queued),
            ("parked", self.parked),
            ("running", self.running),
            ("failing", self.failing),
        ]
    }
}

/// The pairs of a queue in their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueueOrder {
    /// Pairs that wait, by rank.
    ready: [BTreeMap<u64, (Pair, Instant)>; 3],
    /// The next number. The first is in the middle, as a pair that yields gets one before all.
    next: u64,
    /// Whether a large pair is being processed.
    large_running: bool,
    /// A tree, as the other maps, because it frees memory when pairs are removed.
    items: BTreeMap<Pair, ItemState>,
    delayed: BTreeSet<(Instant, Pair)>,
    failures: BTreeMap<Pair, u32>,
    /// Whether pairs of a kind can be reconciled.
    open: PerKind<bool>,
    running: usize,
}

impl QueueOrder {
    /// An empty queue that is open for these kinds.
    pub(super) fn new(open: PerKind<bool>) -> Self {
        Self {
            ready: Default::default(),
            next: u64::MAX / 2,
            large_running: false,
            items: BTreeMap::new(),
            delayed: BTreeSet::new(),
            failures: BTreeMap::new(),
            open,
            running: 0,
        }
    }

    /// Enqueues a pair that changed; `urgent` ones come before those that a list returned. Whether a worker may
    /// have more to do.
    pub(super) fn add(&mut self, pair: Pair, urgent: bool, now: Instant) -> bool {
        match self.items.get(&pair) {
            Some(ItemState::Processing) => {
                self.items.insert(pair, ItemState::Dirty);
                false
            }
            // It moves up.
            Some(ItemState::Ready(Rank::Backlog, _)) if urgent => {
                self.enqueue(pair, urgent, now);
                false
            }
            Some(ItemState::Parked(before)) => {
                let urgent = *before || urgent;
                self.items.insert(pair, ItemState::Parked(urgent));
                false
            }
            Some(ItemState::Ready(..) | ItemState::Dirty) => false,
            Some(ItemState::Delayed(_)) | None => {
                self.enqueue(pair, urgent, now);
                true
            }
        }
    }

    /// Opens or closes the queue for pairs of `kind`. Whether a worker may have more to do.
    pub(super) fn open(&mut self, kind: KindIndex, open: bool, now: Instant) -> bool {
        if mem::replace(&mut self.open[kind], open) || !open {
            return false;
        }
        let parked = |state: &ItemState| match state {
            ItemState::Parked(urgent) => Some(*urgent),
            ItemState::Delayed(_) => Some(false),
            _ => None,
        };
        let of_kind = self.items.iter().filter(|(pair, _)| pair.kind == kind);
        let waiting: Vec<_> =
            of_kind.filter_map(|(pair, state)| Some((pair.clone(), parked(state)?))).collect();
        for (pair, urgent) in waiting {
            // Backoff from the time before it was closed no longer applies.
            self.failures.remove(&pair);
            self.enqueue(pair, urgent, now);
        }
        true
    }

    /// Makes the failed pairs of `kind` due.
    pub(super) fn retry_failed(&mut self, kind: KindIndex, now: Instant) {
        let delayed = |pair: &&Pair| matches!(self.items.get(pair), Some(ItemState::Delayed(_)));
        let failed = self.failures.keys().filter(|pair| pair.kind == kind).filter(delayed);
        let failed: Vec<_> = failed.cloned().collect();
        failed.into_iter().for_each(|pair| self.enqueue(pair, false, now));
    }

    /// The next pair for a worker.
    pub(super) fn get(&mut self, now: Instant) -> Option<WorkItem> {
        self.end_delays(now);
        let item = self.pop()?;
        self.items.insert(item.pair.clone(), ItemState::Processing);
        self.running += 1;
        self.large_running |= item.large;
        Some(item)
    }

    /// The time at which the first delayed pair is due.
    pub(super) fn next_delayed(&self) -> Option<Instant> {
        self.delayed.first().map(|(at, _)| *at)
    }

    /// Handles the result of an attempt; `spread`, between 0 and 1, keeps pairs that failed together from
    /// coming back together.
    pub(super) fn done(
        &mut self,
        item: &WorkItem,
        result: ReconcileResult,
        spread: f64,
        now: Instant,
    ) {
        let WorkItem { pair, since, large, .. } = item;
        self.running -= 1;
        self.large_running &= !large;
        let again = self.items.remove(pair) == Some(ItemState::Dirty);
        let wait = match result {
            ReconcileResult::RequeueAsLarge => {
                return self.insert(pair.clone(), Rank::Large, *since);
            }
            ReconcileResult::Yielded if again => None,
            ReconcileResult::Yielded => return self.put_back(pair.clone(), *since),
            ReconcileResult::Done => {
                self.failures.remove(pair);
                None
            }
            ReconcileResult::RequeueAfter(wait) => {
                self.failures.remove(pair);
                Some(wait)
            }
            ReconcileResult::Failed(class, least) => {
                Some(self.fail(pair, class).mul_f64(0.5 + spread / 2.0).max(least))
            }
        };
        match wait {
            _ if again => self.enqueue(pair.clone(), true, now),
            None => {}
            Some(wait) if wait.is_zero() => self.enqueue(pair.clone(), true, now),
            Some(wait) => self.delay(pair.clone(), now + wait.min(LONGEST)),
        }
    }

    /// The number of pairs that workers could take now.
    pub(super) fn waiting(&self) -> usize {
        let [large, urgent, backlog] = &self.ready;
        urgent.len() + backlog.len() + usize::from(!self.large_running && !large.is_empty())
    }

    /// The number of pairs with a recent event that no worker has taken.
    pub(super) fn urgent(&self) -> usize {
        self.ready[Rank::Urgent as usize].len()
    }

    pub(super) fn has(&self, pair: &Pair) -> bool {
        self.items.contains_key(pair)
    }

    pub(super) fn is_running(&self) -> bool {
        self.running > 0
    }

    /// The number of pairs of a kind that are still to be reconciled.
    pub(super) fn unseen(&self, kind: KindIndex) -> usize {
        let unseen = |(pair, state): &(&Pair, &ItemState)| {
            pair.kind == kind && !matches!(state, ItemState::Delayed(_))
        };
        self.items.iter().filter(unseen).count()
    }

    /// The number of pairs by state.
    pub(super) fn depth(&self) -> QueueDepth {
        let mut depth = QueueDepth {
            running: self.running,
            failing: self.failures.len(),
            ..Default::default()
        };
        for state in self.items.values() {
            match state {
                ItemState::Ready(..) | ItemState::Dirty => depth.queued += 1,
                ItemState::Parked(_) => depth.parked += 1,
                ItemState::Processing | ItemState::Delayed(_) => {}
            }
        }
        depth
    }

    /// Counts a failure and returns the backoff.
    fn fail(&mut self, pair: &Pair, class: RetryClass) -> Duration {
        let failures = self.failures.entry(pair.clone()).or_default();
        let wait = retry::backoff(class, *failures);
        *failures = failures.saturating_add(1);
        wait
    }

    fn enqueue(&mut self, pair: Pair, urgent: bool, now: Instant) {
        match self.items.get(&pair) {
            Some(ItemState::Delayed(at)) => drop(self.delayed.remove(&(*at, pair.clone()))),
            Some(ItemState::Ready(rank, number)) => {
                drop(self.ready[*rank as usize].remove(number));
            }
            _ => {}
        }
        self.insert(pair, if urgent { Rank::Urgent } else { Rank::Backlog }, now);
    }

    fn insert(&mut self, pair: Pair, rank: Rank, since: Instant) {
        self.items.insert(pair.clone(), ItemState::Ready(rank, self.next));
        self.ready[rank as usize].insert(self.next, (pair, since));
        self.next += 1;
    }

    /// Puts a pair before all of the backlog.
    fn put_back(&mut self, pair: Pair, since: Instant) {
        let backlog = &mut self.ready[Rank::Backlog as usize];
        let number = backlog.first_key_value().map_or(self.next, |(first, _)| *first) - 1;
        self.items.insert(pair.clone(), ItemState::Ready(Rank::Backlog, number));
        backlog.insert(number, (pair, since));
    }

    fn delay(&mut self, pair: Pair, until: Instant) {
        self.items.insert(pair.clone(), ItemState::Delayed(until));
        self.delayed.insert((until, pair));
    }

    /// Enqueues the delayed pairs that are due. A repeated look comes with the backlog, however many there are.
    fn end_delays(&mut self, now: Instant) {
        while self.delayed.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, pair)) = self.delayed.pop_first()
        {
            let urgent = self.failures.get(&pair).is_some_and(|failures| *failures <= HOPEFUL);
            self.enqueue(pair, urgent, now);
        }
    }

    /// The next pair that can be reconciled; those before it are parked.
    fn pop(&mut self) -> Option<WorkItem> {
        loop {
            let item = self.first()?;
            if self.open[item.pair.kind] {
                return Some(item);
            }
            self.items.insert(item.pair, ItemState::Parked(item.urgent));
        }
    }

    fn first(&mut self) -> Option<WorkItem> {
        let [large, urgent, backlog] = &mut self.ready;
        let item = |urgent, large| {
            move |(_, (pair, since)): (u64, (Pair, Instant))| WorkItem {
                pair,
                since,
                urgent,
                large,
            }
        };
        let large = if self.large_running { None } else { large.pop_first() };
        large
            .map(item(true, true))
            .or_else(|| urgent.pop_first().map(item(true, false)))
            .or_else(|| backlog.pop_first().map(item(false, false)))
    }
}

#[cfg(test)]
impl QueueOrder {
    pub(super) fn delayed(&self) -> &BTreeSet<(Instant, Pair)> {
        &self.delayed
    }
}
