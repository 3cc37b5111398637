//! Workqueue, as in client-go: a key is queued once, one worker at a time processes it, and it is processed again if it
//! changes meanwhile. As in controller-runtime's priority queue, changes come before the backlog that a list returned.

mod order;

use std::{
    sync::{Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use self::order::Order;
pub use self::order::{QueueDepth, ReconcileResult, WorkItem};
use crate::lock::lock;

/// How long an idle worker stays.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct Workqueue<K> {
    state: Mutex<QueueState<K>>,
    /// A worker may have something to do.
    changed: Condvar,
}

#[derive(Debug)]
struct QueueState<K> {
    order: Order<K>,
    /// The maximum number of workers, and how many there are.
    most: usize,
    workers: usize,
    idle: usize,
    closed: bool,
}

impl<K: Clone + Ord> Workqueue<K> {
    /// A queue for at most `most` workers. If `most` is above 1, another worker takes recent changes only: all others
    /// may be waiting for the rate limiter.
    pub fn new(most: usize) -> Self {
        let order = Order::new(most);
        Self {
            state: Mutex::new(QueueState { order, most, workers: 0, idle: 0, closed: false }),
            changed: Condvar::new(),
        }
    }

    /// Enqueues a key that changed; `urgent` keys come before the backlog.
    pub fn add(&self, key: K, urgent: bool) {
        if self.state().order.add(key, urgent) {
            self.changed.notify_one();
        }
    }

    /// Makes parked and delayed keys due, and resets their failures.
    pub fn retry(&self, which: impl Fn(&K) -> bool) {
        self.state().order.retry(which);
        self.changed.notify_all();
    }

    /// Returns whether another worker is needed, and counts it as started.
    pub fn wants_worker(&self) -> bool {
        let mut state = self.state();
        let most = state.most + usize::from(state.most > 1 && state.order.has_urgent());
        let wants =
            !state.closed && state.workers < most && state.order.wants_worker(state.workers);
        state.workers += usize::from(wants);
        wants
    }

    /// Takes back [`wants_worker`](Self::wants_worker) if the worker could not be started.
    pub fn lacks_worker(&self) {
        self.state().workers -= 1;
    }

    /// Waits for the next item; `None` if the worker should end.
    pub fn get(&self) -> Option<WorkItem<K>> {
        let mut state = self.state();
        let idle_until = Instant::now() + IDLE_TIMEOUT;
        loop {
            let now = Instant::now();
            let item = if state.closed { None } else { state.order.get(now) };
            if item.is_some() {
                return item;
            }
            // One worker stays for delayed keys.
            let next = state.order.next_delayed();
            let is_last = state.idle == 0 && next.is_some();
            if state.closed || now >= idle_until && !is_last {
                state.workers -= 1;
                return None;
            }
            let until = match next {
                Some(next) if is_last => next,
                Some(next) => next.min(idle_until),
                None => idle_until,
            };
            state.idle += 1;
            let wait = until.saturating_duration_since(now);
            (state, _) = self.changed.wait_timeout(state, wait).unwrap_or_else(|e| e.into_inner());
            state.idle -= 1;
        }
    }

    pub fn done(&self, item: &WorkItem<K>, result: ReconcileResult) {
        let mut state = self.state();
        state.order.done(item, result, Instant::now());
        self.changed.notify_one();
    }

    /// Ends all workers after their current attempts.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// After [`Workqueue::close`], waits until all attempts have ended, at most until `deadline`.
    pub fn drain(&self, deadline: Instant) {
        let (state, left) = (self.state(), deadline.saturating_duration_since(Instant::now()));
        let runs = |state: &mut QueueState<K>| state.order.running() > 0;
        drop(self.changed.wait_timeout_while(state, left, runs));
    }

    /// Returns whether a key is queued or being processed.
    pub fn has(&self, key: &K) -> bool {
        self.state().order.has(key)
    }

    /// The number of these keys that are still to be processed.
    pub fn unseen(&self, which: impl Fn(&K) -> bool) -> usize {
        self.state().order.unseen(which)
    }

    pub fn depth(&self) -> QueueDepth {
        self.state().order.depth()
    }

    fn state(&self) -> MutexGuard<'_, QueueState<K>> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests;
