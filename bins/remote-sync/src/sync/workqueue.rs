//! Workqueue of one remote, as in client-go: a pair is queued once, is never processed by two workers, and is
//! processed again if it changes meanwhile. Pairs of a kind that cannot be reconciled at present are parked,
//! without attempts and backoff.

mod order;

use std::{
    sync::{Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use apiclient::lock::lock;

use self::order::QueueOrder;
pub(crate) use self::order::{QueueDepth, ReconcileResult, WorkItem};
use crate::model::key::{KindIndex, Pair, PerKind};

/// The time that an idle worker stays.
const IDLE: Duration = Duration::from_secs(20);

/// The queue with the number of its workers.
#[derive(Debug)]
pub(crate) struct Workqueue {
    state: Mutex<QueueState>,
    /// A worker may have something to do.
    changed: Condvar,
    /// No pair is being processed.
    drained: Condvar,
    /// The most workers.
    most: usize,
}

#[derive(Debug)]
struct QueueState {
    order: QueueOrder,
    workers: usize,
    /// Workers that are waiting.
    idle: usize,
    /// Workers that give their pair back for an urgent one.
    yielding: usize,
    closed: bool,
}

impl Workqueue {
    /// An empty queue for these kinds, all closed.
    pub(crate) fn new<T>(kinds: &PerKind<T>, workers: usize) -> Self {
        let order = QueueOrder::new(kinds.map(|_| false));
        Self {
            state: Mutex::new(QueueState {
                order,
                workers: 0,
                idle: 0,
                yielding: 0,
                closed: false,
            }),
            changed: Condvar::new(),
            drained: Condvar::new(),
            most: workers,
        }
    }

    /// Enqueues a pair that changed; `urgent` ones come before those that a list returned.
    pub(crate) fn add(&self, pair: Pair, urgent: bool) {
        if self.state().order.add(pair, urgent, Instant::now()) {
            self.changed.notify_one();
        }
    }

    /// Opens or closes the queue for pairs of `kind`.
    pub(crate) fn open(&self, kind: KindIndex, open: bool) {
        if self.state().order.open(kind, open, Instant::now()) {
            self.changed.notify_all();
        }
    }

    /// Makes the failed pairs of `kind` due.
    pub(crate) fn retry_failed(&self, kind: KindIndex) {
        self.state().order.retry_failed(kind, Instant::now());
        self.changed.notify_all();
    }

    /// Returns whether another worker is needed; counts it as started.
    pub(crate) fn wants_worker(&self) -> bool {
        let mut state = self.state();
        let wants =
            state.order.waiting() > state.idle && state.workers < self.most && !state.closed;
        state.workers += usize::from(wants);
        wants
    }

    /// The next pair for a worker; `None` if the worker should end.
    pub(crate) fn get(&self) -> Option<WorkItem> {
        let mut state = self.state();
        let idle_until = Instant::now() + IDLE;
        loop {
            let now = Instant::now();
            if state.closed {
                state.workers -= 1;
                return None;
            }
            let item = state.order.get(now);
            if item.is_some() {
                return item;
            }
            // One worker has to stay for delayed pairs.
            let next = state.order.next_delayed();
            let last = state.idle == 0 && next.is_some();
            if now >= idle_until && !last {
                state.workers -= 1;
                return None;
            }
            let until = match next {
                Some(next) if last => next,
                Some(next) => next.min(idle_until),
                None => idle_until,
            };
            state.idle += 1;
            let wait = until.saturating_duration_since(now);
            (state, _) = self.changed.wait_timeout(state, wait).unwrap_or_else(|e| e.into_inner());
            state.idle -= 1;
        }
    }

    /// Handles the result of an attempt.
    pub(crate) fn done(&self, item: &WorkItem, result: ReconcileResult) {
        let mut state = self.state();
        if result == ReconcileResult::Yielded {
            state.yielding -= 1;
        }
        state.order.done(item, result, fastrand::f64(), Instant::now());
        if !state.order.is_running() {
            self.drained.notify_all();
        }
        self.changed.notify_one();
    }

    /// Returns whether a worker that waits should give its pair back: an urgent one would wait for it otherwise.
    /// Such a worker is counted until it is [`done`](Self::done).
    pub(crate) fn wants_yield(&self) -> bool {
        let mut state = self.state();
        let wants = state.order.urgent() > state.idle + state.yielding;
        state.yielding += usize::from(wants);
        wants
    }

    /// Returns whether a pair is in it, or being processed.
    pub(crate) fn has(&self, pair: &Pair) -> bool {
        self.state().order.has(pair)
    }

    /// Uncounts a worker that could not be started.
    pub(crate) fn lacks_worker(&self) {
        self.state().workers -= 1;
    }

    /// Ends all workers after their current attempts.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Returns whether a pair is being processed.
    pub(crate) fn is_running(&self) -> bool {
        self.state().order.is_running()
    }

    /// Waits until no pair is being processed, at most until `deadline`.
    pub(crate) fn wait_until_drained(&self, deadline: Instant) {
        let state = self.state();
        let wait = deadline.saturating_duration_since(Instant::now());
        drop(self.drained.wait_timeout_while(state, wait, |state| state.order.is_running()));
    }

    /// The number of pairs of a kind that are still to be reconciled.
    pub(crate) fn unseen(&self, kind: KindIndex) -> usize {
        self.state().order.unseen(kind)
    }

    /// The number of pairs by state.
    pub(crate) fn depth(&self) -> QueueDepth {
        self.state().order.depth()
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests;
