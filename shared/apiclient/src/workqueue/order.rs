//! Order of a workqueue: which key is next, and when. It is pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// The longest delay; a later instant may not be representable.
const MAX_DELAY: Duration = Duration::from_secs(24 * 3600);

/// After more failures in a row, a retry belongs to the backlog.
const MAX_URGENT_FAILURES: u32 = 3;

/// The order in which keys are taken; first in, first out within a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Large objects, one at a time.
    Large,
    /// A recent change.
    Urgent,
    /// From a list.
    Backlog,
}

/// The position among the ready keys: by rank, then by number.
pub(super) type QueuePosition = (Rank, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyState {
    Ready(QueuePosition),
    /// Waits until it is retried.
    Parked,
    Processing,
    /// It changed while it was being processed.
    Dirty,
    Delayed(Instant),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: KeyState,
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReconcileResult {
    /// Done; earlier failures are forgotten.
    Done,
    /// Done for now; reconcile again after this time.
    RequeueAfter(Duration),
    /// Failed; retried after this time.
    Failed(Duration),
    /// The object is large: wait until no other large one is being processed.
    RequeueAsLarge,
    /// It cannot be reconciled now: wait for [`Workqueue::retry`](super::Workqueue::retry).
    Park,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkItem<K> {
    pub key: K,
    /// It comes before the backlog.
    pub urgent: bool,
    /// The object may be large: one such item is processed at a time.
    pub large: bool,
    /// Failures in a row so far.
    pub failures: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDepth {
    pub queued: usize,
    pub parked: usize,
    pub running: usize,
    pub failing: usize,
}

impl QueueDepth {
    pub fn by_state(&self) -> [(&'static str, usize); 4] {
        let Self { queued, parked, running, failing } = *self;
        [("queued", queued), ("parked", parked), ("running", running), ("failing", failing)]
    }
}

/// The keys of a queue in their order. Trees free memory when keys are removed.
#[derive(Debug)]
pub(super) struct Order<K> {
    entries: BTreeMap<K, Entry>,
    ready: BTreeMap<QueuePosition, K>,
    next: u64,
    delayed: BTreeSet<(Instant, K)>,
    /// The number of keys that are being processed.
    running: usize,
    /// How many keys of the backlog are being processed, and how many may be.
    backlog: usize,
    max_backlog: usize,
    /// A large object is being processed.
    runs_large: bool,
}

impl<K: Clone + Ord> Order<K> {
    pub(super) fn new(max_backlog: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            ready: BTreeMap::new(),
            next: 0,
            delayed: BTreeSet::new(),
            running: 0,
            backlog: 0,
            max_backlog,
            runs_large: false,
        }
    }

    /// Enqueues a key that changed; returns whether a worker may have something to do.
    pub(super) fn add(&mut self, key: K, urgent: bool) -> bool {
        match self.entries.get_mut(&key).map(|entry| &mut entry.state) {
            Some(state @ KeyState::Processing) => *state = KeyState::Dirty,
            Some(KeyState::Dirty | KeyState::Parked) => {}
            Some(KeyState::Ready((rank, _))) if *rank != Rank::Backlog || !urgent => {}
            // A key of the backlog moves up.
            Some(KeyState::Ready(..) | KeyState::Delayed(_)) | None => {
                self.enqueue(key, urgent);
                return true;
            }
        }
        false
    }

    pub(super) fn retry(&mut self, which: impl Fn(&K) -> bool) {
        let of_these = self.entries.iter_mut().filter(|(key, _)| which(key));
        let mut due = Vec::new();
        for (key, entry) in of_these {
            match entry.state {
                KeyState::Parked | KeyState::Delayed(_) => due.push(key.clone()),
                // Its current attempt may park it.
                KeyState::Processing => entry.state = KeyState::Dirty,
                KeyState::Ready(..) | KeyState::Dirty => continue,
            }
            entry.failures = 0;
        }
        due.into_iter().for_each(|key| self.enqueue(key, false));
    }

    pub(super) fn get(&mut self, now: Instant) -> Option<WorkItem<K>> {
        self.end_delays(now);
        let ((rank, _), key) = self.available().next()?;
        let (urgent, large) = (*rank != Rank::Backlog, *rank == Rank::Large);
        let key = key.clone();
        let failures = self.entries.get(&key).map_or(0, |entry| entry.failures);
        self.set(key.clone(), Entry { state: KeyState::Processing, failures });
        self.running += 1;
        self.backlog += usize::from(!urgent);
        self.runs_large |= large;
        Some(WorkItem { key, urgent, large, failures })
    }

    pub(super) fn done(&mut self, item: &WorkItem<K>, result: ReconcileResult, now: Instant) {
        let WorkItem { key, urgent, large, failures } = item.clone();
        self.running -= 1;
        self.backlog -= usize::from(!urgent);
        self.runs_large &= !large;
        let entry = self.entries.remove(&key);
        let again = entry.is_some_and(|entry| entry.state == KeyState::Dirty);
        let (wait, failures) = match result {
            ReconcileResult::RequeueAsLarge => {
                return self.insert(key, Rank::Large, failures);
            }
            ReconcileResult::Park if !again => {
                return self.set(key, Entry { state: KeyState::Parked, failures: 0 });
            }
            ReconcileResult::Done | ReconcileResult::Park => (None, 0),
            ReconcileResult::RequeueAfter(wait) => (Some(wait), 0),
            ReconcileResult::Failed(wait) => (Some(wait), failures.saturating_add(1)),
        };
        let due = again || wait.is_some_and(|wait| wait.is_zero());
        match wait {
            _ if due => self.insert(key, Rank::Urgent, failures),
            None => {}
            Some(wait) => {
                let state = KeyState::Delayed(now + wait.min(MAX_DELAY));
                self.set(key, Entry { state, failures });
            }
        }
    }

    /// Returns whether there are more ready keys than free workers. A worker that was just started is free.
    pub(super) fn wants_worker(&self, workers: usize) -> bool {
        let free = workers.saturating_sub(self.running());
        self.available().nth(free).is_some()
    }

    /// Returns whether a recent change is ready.
    pub(super) fn has_urgent(&self) -> bool {
        self.ready.range((Rank::Urgent, 0)..(Rank::Backlog, 0)).next().is_some()
    }

    /// The keys that workers could take now, in order.
    pub(super) fn available(&self) -> impl Iterator<Item = (&QueuePosition, &K)> {
        let first = if self.runs_large { Rank::Urgent } else { Rank::Large };
        let is_full = self.backlog >= self.max_backlog;
        let last = if is_full { Rank::Urgent } else { Rank::Backlog };
        self.ready.range((first, 0)..=(last, u64::MAX))
    }

    /// The time at which the first delayed key is due.
    pub(super) fn next_delayed(&self) -> Option<Instant> {
        self.delayed.first().map(|(at, _)| *at)
    }

    pub(super) fn has(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// The number of keys that are being processed.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    pub(super) fn unseen(&self, which: impl Fn(&K) -> bool) -> usize {
        let unseen = |(key, entry): &(&K, &Entry)| {
            !matches!(entry.state, KeyState::Delayed(_)) && which(key)
        };
        self.entries.iter().filter(unseen).count()
    }

    pub(super) fn depth(&self) -> QueueDepth {
        let mut depth = QueueDepth { running: self.running(), ..Default::default() };
        for entry in self.entries.values() {
            depth.failing += usize::from(entry.failures > 0);
            match entry.state {
                KeyState::Ready(..) | KeyState::Dirty => depth.queued += 1,
                KeyState::Parked => depth.parked += 1,
                KeyState::Processing | KeyState::Delayed(_) => {}
            }
        }
        depth
    }

    /// Enqueues the delayed keys that are due: urgent after a few failures, else in the backlog.
    fn end_delays(&mut self, now: Instant) {
        while let Some((_, key)) = self.delayed.first().filter(|(at, _)| *at <= now).cloned() {
            let failures = self.entries.get(&key).map_or(0, |entry| entry.failures);
            self.enqueue(key, (1..=MAX_URGENT_FAILURES).contains(&failures));
        }
    }

    fn enqueue(&mut self, key: K, urgent: bool) {
        let failures = self.entries.get(&key).map_or(0, |entry| entry.failures);
        let rank = if urgent { Rank::Urgent } else { Rank::Backlog };
        self.insert(key, rank, failures);
    }

    fn insert(&mut self, key: K, rank: Rank, failures: u32) {
        self.next += 1;
        self.set(key, Entry { state: KeyState::Ready((rank, self.next)), failures });
    }

    /// Updates the entry of a key, and moves the key to the collection of its state.
    fn set(&mut self, key: K, entry: Entry) {
        match self.entries.insert(key.clone(), entry).map(|before| before.state) {
            Some(KeyState::Ready(place)) => drop(self.ready.remove(&place)),
            Some(KeyState::Delayed(at)) => drop(self.delayed.remove(&(at, key.clone()))),
            _ => {}
        }
        match entry.state {
            KeyState::Ready(place) => drop(self.ready.insert(place, key)),
            KeyState::Delayed(at) => drop(self.delayed.insert((at, key))),
            _ => {}
        }
    }
}

#[cfg(test)]
impl<K> Order<K> {
    pub(super) fn delayed(&self) -> usize {
        self.delayed.len()
    }
}
