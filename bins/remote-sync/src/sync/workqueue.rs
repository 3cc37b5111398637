//! The workqueue of one remote, as client-go's: each pair is in it once, and never with two workers; one that
//! changes while it is worked on is worked on again. Pairs of a kind that cannot be worked on at present are
//! parked: no try, no wait.

mod order;

use std::{
    sync::{Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use shared::lock::lock;

use self::order::QueueOrder;
pub(crate) use self::order::{QueueDepth, ReconcileResult, WorkItem};
use crate::model::{key::Pair, mode::Mode};

/// A worker that has nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(20);

/// See the module.
#[derive(Debug)]
pub(crate) struct Workqueue {
    state: Mutex<QueueState>,
    /// There may be something for a worker.
    changed: Condvar,
    /// No pair is worked on.
    drained: Condvar,
    /// Workers at most.
    most: usize,
}

#[derive(Debug)]
struct QueueState {
    order: QueueOrder,
    workers: usize,
    /// Workers that wait.
    idle: usize,
    closed: bool,
}

impl Workqueue {
    /// A queue for so many kinds, all closed, and at most so many workers.
    pub(crate) fn new(kinds: usize, workers: usize, mode: Mode) -> Self {
        let order = QueueOrder::new(kinds, mode);
        Self {
            state: Mutex::new(QueueState { order, workers: 0, idle: 0, closed: false }),
            changed: Condvar::new(),
            drained: Condvar::new(),
            most: workers,
        }
    }

    /// Something of the pair changed; `urgent` comes before what only a list brought.
    pub(crate) fn add(&self, pair: Pair, urgent: bool) {
        if self.state().order.add(pair, urgent, Instant::now()) {
            self.changed.notify_one();
        }
    }

    /// Pairs of `kind` can be worked on, or can no more.
    pub(crate) fn open(&self, kind: usize, open: bool) {
        if self.state().order.open(kind, open, Instant::now()) {
            self.changed.notify_all();
        }
    }

    /// Whether another worker should begin; counts it as begun.
    pub(crate) fn wants_worker(&self) -> bool {
        let mut state = self.state();
        let wants =
            state.order.waiting() > state.idle && state.workers < self.most && !state.closed;
        state.workers += usize::from(wants);
        wants
    }

    /// The next pair for a worker; `None` when the worker should end.
    pub(crate) fn get(&self) -> Option<WorkItem> {
        let mut state = self.state();
        let bored = Instant::now() + IDLE;
        loop {
            let now = Instant::now();
            if state.closed {
                state.workers -= 1;
                return None;
            }
            if let Some(item) = state.order.get(now) {
                return Some(item);
            }
            // Somebody has to stay for what is delayed.
            let next = state.order.next_delayed();
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
    pub(crate) fn done(&self, item: &WorkItem, result: ReconcileResult) {
        let mut state = self.state();
        state.order.done(item, result, Instant::now());
        if !state.order.is_running() {
            self.drained.notify_all();
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

    /// Whether a pair is worked on.
    pub(crate) fn is_running(&self) -> bool {
        self.state().order.is_running()
    }

    /// Waits until no pair is worked on, at most until `deadline`.
    pub(crate) fn wait_until_drained(&self, deadline: Instant) {
        let state = self.state();
        let wait = deadline.saturating_duration_since(Instant::now());
        drop(self.drained.wait_timeout_while(state, wait, |state| state.order.is_running()));
    }

    /// How many pairs of a kind have to be looked at.
    pub(crate) fn unseen(&self, kind: usize) -> usize {
        self.state().order.unseen(kind)
    }

    /// How many wait for a worker, wait for their time, are parked, and are worked on.
    pub(crate) fn depth(&self) -> QueueDepth {
        self.state().order.depth()
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests;
