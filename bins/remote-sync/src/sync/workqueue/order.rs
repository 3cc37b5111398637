//! Order of a workqueue: which pair is next, when, and after which backoff. Pure.
//!
//! Failures are counted here and not in the memory of pairs: like client-go's ItemExponentialFailureRateLimiter
//! they belong to the queue, and a pair's memory outlives a reconnect while its failures do not.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use crate::{
    cache::retry::{self, RetryClass},
    model::{
        key::{KindIndex, Pair, PerKind},
        mode::Mode,
    },
};

/// Capacity that an empty queue keeps, in pairs.
const ROOM: usize = 64;

/// The longest delay: later instants may not be representable.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The state of a pair in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ItemState {
    Queued,
    Parked,
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
    /// Its objects are large: it needs a permit.
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

/// The pairs of a queue in their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueueOrder {
    mode: Mode,
    /// Pairs with a recent event.
    events: VecDeque<(Pair, Instant)>,
    /// Pairs that a list returned.
    backlog: VecDeque<(Pair, Instant)>,
    /// Pairs with large objects.
    large: VecDeque<(Pair, Instant)>,
    /// Whether one of them is being processed.
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
    pub(super) fn new(open: PerKind<bool>, mode: Mode) -> Self {
        Self {
            mode,
            events: VecDeque::new(),
            backlog: VecDeque::new(),
            large: VecDeque::new(),
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
            Some(ItemState::Queued | ItemState::Parked | ItemState::Dirty) => false,
            Some(ItemState::Delayed(_)) | None => {
                self.enqueue(pair, urgent, now);
                true
            }
        }
    }

    /// Opens or closes the queue for pairs of `kind`. Whether a worker may have more to do.
    pub(super) fn open(&mut self, kind: KindIndex, open: bool, now: Instant) -> bool {
        if std::mem::replace(&mut self.open[kind], open) || !open {
            return false;
        }
        let parked = |state: &ItemState| matches!(state, ItemState::Parked | ItemState::Delayed(_));
        let waiting: Vec<_> = self
            .items
            .iter()
            .filter(|(pair, state)| pair.kind == kind && parked(state))
            .map(|(pair, _)| pair.clone())
            .collect();
        for pair in waiting {
            // Backoff from the time before it was closed no longer applies.
            self.failures.remove(&pair);
            self.enqueue(pair, false, now);
        }
        true
    }

    /// The next pair for a worker.
    pub(super) fn get(&mut self, now: Instant) -> Option<WorkItem> {
        self.promote(now);
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

    /// Handles the result of an attempt.
    pub(super) fn done(&mut self, item: &WorkItem, result: ReconcileResult, now: Instant) {
        let WorkItem { pair, since, large } = item;
        self.running -= 1;
        self.large_running &= !large;
        let again = self.items.remove(pair) == Some(ItemState::Dirty);
        let wait = match result {
            ReconcileResult::RequeueAsLarge => {
                self.items.insert(pair.clone(), ItemState::Queued);
                self.large.push_back((pair.clone(), *since));
                return;
            }
            ReconcileResult::Done => {
                self.failures.remove(pair);
                None
            }
            ReconcileResult::RequeueAfter(wait) => {
                self.failures.remove(pair);
                Some(wait)
            }
            ReconcileResult::Failed(class, least) => Some(self.fail(pair, class).max(least)),
        };
        match wait {
            _ if again => self.enqueue(pair.clone(), true, now),
            None => {}
            Some(wait) if wait.is_zero() => self.enqueue(pair.clone(), true, now),
            Some(wait) => self.delay(pair.clone(), now + wait.min(LONGEST)),
        }
        if self.items.is_empty() {
            self.events.shrink_to(ROOM);
            self.backlog.shrink_to(ROOM);
            self.large.shrink_to(ROOM);
        }
    }

    /// The number of pairs that workers could take now.
    pub(super) fn waiting(&self) -> usize {
        let large = usize::from(!self.large_running && !self.large.is_empty());
        self.events.len() + self.backlog.len() + large
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
        let count = |wanted: &[ItemState]| {
            self.items.values().filter(|state| wanted.contains(state)).count()
        };
        QueueDepth {
            queued: count(&[ItemState::Queued, ItemState::Dirty]),
            parked: count(&[ItemState::Parked]),
            running: self.running,
            failing: self.failures.len(),
        }
    }

    /// Counts a failure and returns the backoff.
    fn fail(&mut self, pair: &Pair, class: RetryClass) -> Duration {
        let failures = self.failures.entry(pair.clone()).or_default();
        let wait = retry::backoff(class, *failures, self.mode);
        *failures = failures.saturating_add(1);
        wait
    }

    fn enqueue(&mut self, pair: Pair, urgent: bool, now: Instant) {
        if let Some(ItemState::Delayed(at)) = self.items.insert(pair.clone(), ItemState::Queued) {
            self.delayed.remove(&(at, pair.clone()));
        }
        let queue = if urgent { &mut self.events } else { &mut self.backlog };
        queue.push_back((pair, now));
    }

    fn delay(&mut self, pair: Pair, until: Instant) {
        self.items.insert(pair.clone(), ItemState::Delayed(until));
        self.delayed.insert((until, pair));
    }

    /// Enqueues the delayed pairs that are due.
    fn promote(&mut self, now: Instant) {
        while self.delayed.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, pair)) = self.delayed.pop_first()
        {
            self.enqueue(pair, true, now);
        }
    }

    /// The next pair that can be reconciled; those before it are parked.
    fn pop(&mut self) -> Option<WorkItem> {
        loop {
            let large = if self.large_running { None } else { self.large.pop_front() };
            let is_large = large.is_some();
            let next = large.or_else(|| self.events.pop_front());
            let (pair, since) = next.or_else(|| self.backlog.pop_front())?;
            if self.open[pair.kind] {
                return Some(WorkItem { pair, since, large: is_large });
            }
            self.items.insert(pair, ItemState::Parked);
        }
    }
}

#[cfg(test)]
impl QueueOrder {
    pub(super) fn delayed(&self) -> &BTreeSet<(Instant, Pair)> {
        &self.delayed
    }
}
