//! The order of a workqueue: pure.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use crate::{
    cache::retry::{self, RetryClass},
    model::{key::Pair, mode::Mode},
};

/// Room for so many pairs stays when the queue is empty.
const ROOM: usize = 64;

/// What waits longer is looked at all the same: no clock counts for ever.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Where a pair is in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ItemState {
    Queued,
    Parked,
    Processing,
    /// It changed while a worker had it.
    Dirty,
    /// Until then.
    Delayed(Instant),
}

/// What a worker says at the end of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReconcileResult {
    /// Done; whatever failed before is over.
    Done,
    /// Done for now; look again after this time.
    RequeueAfter(Duration),
    /// Its objects are large: it has to wait for its turn among those.
    RequeueAsLarge,
    /// It failed; it is not tried again before this time.
    Failed(RetryClass, Duration),
}

/// What a worker takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WorkItem {
    pub(crate) pair: Pair,
    /// Since when it waited.
    pub(crate) since: Instant,
    /// Its objects may be large: of these one of each remote is worked on at a time.
    pub(crate) large: bool,
}

/// How full a queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueDepth {
    pub(crate) queued: usize,
    pub(crate) parked: usize,
    pub(crate) running: usize,
    pub(crate) failing: usize,
}

/// Which pair is next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueueOrder {
    mode: Mode,
    /// What changed just now.
    events: VecDeque<(Pair, Instant)>,
    /// What a list brought.
    backlog: VecDeque<(Pair, Instant)>,
    /// Pairs with large objects, and whether one of them is worked on.
    large: VecDeque<(Pair, Instant)>,
    large_running: bool,
    /// Trees, which let go of their room when many pairs are done.
    items: BTreeMap<Pair, ItemState>,
    delayed: BTreeSet<(Instant, Pair)>,
    failures: BTreeMap<Pair, u32>,
    /// By kind: whether its pairs can be worked on.
    open: Vec<bool>,
    running: usize,
}

impl QueueOrder {
    /// Empty, for so many kinds, all closed.
    pub(super) fn new(kinds: usize, mode: Mode) -> Self {
        Self {
            mode,
            events: VecDeque::new(),
            backlog: VecDeque::new(),
            large: VecDeque::new(),
            large_running: false,
            items: BTreeMap::new(),
            delayed: BTreeSet::new(),
            failures: BTreeMap::new(),
            open: vec![false; kinds],
            running: 0,
        }
    }

    /// Something of the pair changed; `urgent` comes before what only a list brought. Whether there is more
    /// to do than before.
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

    /// Pairs of `kind` can be worked on, or can no more. Whether there is more to do than before.
    pub(super) fn open(&mut self, kind: usize, open: bool, now: Instant) -> bool {
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
            // What failed because the connection was down is not to wait for its turn of then.
            self.failures.remove(&pair);
            self.enqueue(pair, false, now);
        }
        true
    }

    /// The next pair for a worker, if there is one now.
    pub(super) fn get(&mut self, now: Instant) -> Option<WorkItem> {
        self.promote(now);
        let item = self.pop()?;
        self.items.insert(item.pair.clone(), ItemState::Processing);
        self.running += 1;
        self.large_running |= item.large;
        Some(item)
    }

    /// When the first of what is delayed has waited long enough.
    pub(super) fn next_delayed(&self) -> Option<Instant> {
        self.delayed.first().map(|(at, _)| *at)
    }

    /// The pass over a pair ended.
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

    /// How many pairs a worker could take now.
    pub(super) fn waiting(&self) -> usize {
        let large = usize::from(!self.large_running && !self.large.is_empty());
        self.events.len() + self.backlog.len() + large
    }

    pub(super) fn is_running(&self) -> bool {
        self.running > 0
    }

    /// How many pairs of a kind have to be looked at.
    pub(super) fn unseen(&self, kind: usize) -> usize {
        let unseen = |(pair, state): &(&Pair, &ItemState)| {
            pair.kind == kind && !matches!(state, ItemState::Delayed(_))
        };
        self.items.iter().filter(unseen).count()
    }

    /// How many wait for a worker, wait for their time, are parked, and are worked on.
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

    /// Counts a failure; returns how long the pair waits after it.
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

    /// Moves what was delayed until now to the queue.
    fn promote(&mut self, now: Instant) {
        while self.delayed.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, pair)) = self.delayed.pop_first()
        {
            self.enqueue(pair, true, now);
        }
    }

    /// The next pair that can be worked on; the others on the way are parked.
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
