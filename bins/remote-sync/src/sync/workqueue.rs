//! The pairs of one remote that have to be looked at. Each is in it once, and never with two workers; one
//! that changes while it is worked on is looked at again. Pairs of a kind that cannot be worked on at
//! present are parked: no try, no wait.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use shared::lock::lock;

use crate::{
    cache::retry::{self, RetryClass},
    model::{key::Pair, mode::Mode},
};

/// A worker that has nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(20);
/// Room for so many pairs stays when the queue is empty.
const ROOM: usize = 64;

/// What waits longer is looked at all the same: no clock counts for ever.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Where a pair is in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkItem {
    pub(crate) pair: Pair,
    /// Since when it waited.
    pub(crate) since: Instant,
    /// Its objects may be large: of these one of each remote is worked on at a time.
    pub(crate) large: bool,
}

#[derive(Debug)]
pub(crate) struct Workqueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    workers: usize,
    mode: Mode,
}

#[derive(Debug)]
struct QueueState {
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
    workers: usize,
    idle: usize,
    running: usize,
    closed: bool,
}

impl Workqueue {
    /// A queue for so many kinds, all closed, and at most so many workers.
    pub(crate) fn new(kinds: usize, workers: usize, mode: Mode) -> Self {
        let state = QueueState {
            events: VecDeque::new(),
            backlog: VecDeque::new(),
            large: VecDeque::new(),
            large_running: false,
            items: BTreeMap::new(),
            delayed: BTreeSet::new(),
            failures: BTreeMap::new(),
            open: vec![false; kinds],
            workers: 0,
            idle: 0,
            running: 0,
            closed: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), workers, mode }
    }

    /// Something of the pair changed; `urgent` comes before what only a list brought.
    pub(crate) fn add(&self, pair: Pair, urgent: bool) {
        let mut state = self.state();
        match state.items.get(&pair) {
            Some(ItemState::Processing) => {
                state.items.insert(pair, ItemState::Dirty);
            }
            Some(ItemState::Queued | ItemState::Parked | ItemState::Dirty) => {}
            Some(ItemState::Delayed(_)) | None => {
                state.enqueue(pair, urgent);
                self.changed.notify_one();
            }
        }
    }

    /// Pairs of `kind` can be worked on, or can no more.
    pub(crate) fn open(&self, kind: usize, open: bool) {
        let mut state = self.state();
        if std::mem::replace(&mut state.open[kind], open) || !open {
            return;
        }
        let parked = |item_state: &ItemState| {
            matches!(item_state, ItemState::Parked | ItemState::Delayed(_))
        };
        let waiting: Vec<_> = state
            .items
            .iter()
            .filter(|(pair, item_state)| pair.kind == kind && parked(item_state))
            .map(|(pair, _)| pair.clone())
            .collect();
        for pair in waiting {
            // What failed because the connection was down is not to wait for its turn of then.
            state.failures.remove(&pair);
            state.enqueue(pair, false);
        }
        self.changed.notify_all();
    }

    /// Whether another worker should begin; counts it as begun.
    pub(crate) fn wants_worker(&self) -> bool {
        let mut state = self.state();
        let large = usize::from(!state.large_running && !state.large.is_empty());
        let waiting = state.events.len() + state.backlog.len() + large;
        let wants = waiting > state.idle && state.workers < self.workers && !state.closed;
        state.workers += usize::from(wants);
        wants
    }

    /// The next pair for a worker; `None` when the worker should end.
    pub(crate) fn get(&self) -> Option<WorkItem> {
        let mut state = self.state();
        let bored = Instant::now() + IDLE;
        loop {
            let now = Instant::now();
            state.promote(now);
            if state.closed {
                state.workers -= 1;
                return None;
            }
            if let Some(item) = state.pop() {
                state.items.insert(item.pair.clone(), ItemState::Processing);
                state.running += 1;
                state.large_running |= item.large;
                return Some(item);
            }
            // Somebody has to stay for what is delayed.
            let next = state.delayed.first().map(|(at, _)| *at);
            let last = state.idle == 0 && next.is_some();
            if now >= bored && !last {
                state.workers -= 1;
                return None;
            }
            let until = match next {
                Some(next) if last => next,
                Some(next) => next.min(bored),
                None => bored,
            };
            state.idle += 1;
            let wait = until.saturating_duration_since(now);
            (state, _) = self.changed.wait_timeout(state, wait).unwrap_or_else(|e| e.into_inner());
            state.idle -= 1;
        }
    }

    /// The pass over a pair ended.
    pub(crate) fn done(&self, WorkItem { pair, since, large }: &WorkItem, result: ReconcileResult) {
        let mut state = self.state();
        state.running -= 1;
        state.large_running &= !large;
        let again = state.items.remove(pair) == Some(ItemState::Dirty);
        let wait = match result {
            ReconcileResult::RequeueAsLarge => {
                state.items.insert(pair.clone(), ItemState::Queued);
                state.large.push_back((pair.clone(), *since));
                self.changed.notify_one();
                return;
            }
            ReconcileResult::Done => {
                state.failures.remove(pair);
                None
            }
            ReconcileResult::RequeueAfter(wait) => {
                state.failures.remove(pair);
                Some(wait)
            }
            ReconcileResult::Failed(class, least) => {
                let failures = state.failures.entry(pair.clone()).or_default();
                let wait = retry::backoff(class, *failures, self.mode).max(least);
                *failures = failures.saturating_add(1);
                Some(wait)
            }
        };
        match wait {
            _ if again => state.enqueue(pair.clone(), true),
            None => {}
            Some(wait) if wait.is_zero() => state.enqueue(pair.clone(), true),
            Some(wait) => state.delay(pair.clone(), Instant::now() + wait.min(LONGEST)),
        }
        if state.items.is_empty() {
            state.events.shrink_to(ROOM);
            state.backlog.shrink_to(ROOM);
            state.large.shrink_to(ROOM);
        }
        self.changed.notify_one();
    }

    /// A worker that was counted could not begin.
    pub(crate) fn lacks_worker(&self) {
        self.state().workers -= 1;
    }

    /// Ends all workers when they are done with what they have.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// How many pairs of a kind have to be looked at.
    pub(crate) fn unseen(&self, kind: usize) -> usize {
        let state = self.state();
        let unseen = |(pair, item_state): &(&Pair, &ItemState)| {
            pair.kind == kind && !matches!(item_state, ItemState::Delayed(_))
        };
        state.items.iter().filter(unseen).count()
    }

    /// How many wait for a worker, wait for their time, are parked, and are worked on.
    pub(crate) fn depth(&self) -> QueueDepth {
        let state = self.state();
        let count = |parked: bool| {
            let parked =
                |item_state: &&ItemState| matches!(item_state, ItemState::Parked) == parked;
            let waiting = |item_state: &&ItemState| {
                matches!(item_state, ItemState::Parked | ItemState::Queued | ItemState::Dirty)
            };
            state.items.values().filter(waiting).filter(parked).count()
        };
        QueueDepth {
            queued: count(false),
            parked: count(true),
            running: state.running,
            failing: state.failures.len(),
        }
    }
}

/// How full a queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueDepth {
    pub(crate) queued: usize,
    pub(crate) parked: usize,
    pub(crate) running: usize,
    pub(crate) failing: usize,
}

impl Workqueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }
}

impl QueueState {
    fn enqueue(&mut self, pair: Pair, urgent: bool) {
        if let Some(ItemState::Delayed(at)) = self.items.insert(pair.clone(), ItemState::Queued) {
            self.delayed.remove(&(at, pair.clone()));
        }
        let queue = if urgent { &mut self.events } else { &mut self.backlog };
        queue.push_back((pair, Instant::now()));
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
            self.enqueue(pair, true);
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
mod tests;
