//! Cancellation: SIGTERM or SIGINT raises a [`Stop`], which interrupts every wait.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, Weak},
    thread,
    time::{Duration, Instant},
};

use crate::lock::lock;

/// A token shared by threads: raising it wakes everything that waits on it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    raised: Option<Instant>,
    wakes: u64,
    children: Vec<Weak<Inner>>,
}

impl Stop {
    /// The longest sleep at a stretch, and so the delay until a suspended machine is noticed.
    pub const SLICE: Duration = Duration::from_secs(15);
    /// The time for pending work after the signal.
    pub const GRACE_PERIOD: Duration = Duration::from_millis(800);

    /// A child token, raised with its parent or alone.
    pub fn child(&self) -> Self {
        let child = Self::default();
        let mut state = self.lock();
        child.lock().raised = state.raised;
        state.children.retain(|child| child.strong_count() > 0);
        state.children.push(Arc::downgrade(&child.0));
        drop(state);
        child
    }

    pub fn raise(&self) {
        let children = {
            let mut state = self.lock();
            state.raised.get_or_insert_with(Instant::now);
            std::mem::take(&mut state.children)
        };
        self.0.changed.notify_all();
        children.iter().filter_map(Weak::upgrade).for_each(|child| Self(child).raise());
    }

    pub fn raised(&self) -> bool {
        self.lock().raised.is_some()
    }

    pub fn raised_for(&self) -> Duration {
        self.lock().raised.map_or(Duration::ZERO, |at| at.elapsed())
    }

    /// Waits for `time`; returns `true` at once when it is raised.
    pub fn wait(&self, time: Duration) -> bool {
        self.wait_while(time, |_| true)
    }

    pub fn wait_until_raised(&self) {
        self.wait(Duration::MAX);
    }

    /// Reports a change: every [`Stop::wait_for_change`] returns.
    pub fn wake(&self) {
        self.lock().wakes += 1;
        self.0.changed.notify_all();
    }

    /// The number of calls of [`Stop::wake`]; read it before the state that may change.
    pub fn wakes(&self) -> u64 {
        self.lock().wakes
    }

    /// Waits until `deadline`, until a wake after `seen`, or until it is raised; returns whether it is raised.
    pub fn wait_for_change(&self, seen: u64, deadline: Instant) -> bool {
        let time = deadline.saturating_duration_since(Instant::now());
        self.wait_while(time, |state| state.wakes == seen)
    }

    fn wait_while(&self, time: Duration, waits: impl Fn(&State) -> bool) -> bool {
        let waits = |state: &mut State| state.raised.is_none() && waits(state);
        let waited = self.0.changed.wait_timeout_while(self.lock(), time, waits);
        waited.unwrap_or_else(|e| e.into_inner()).0.raised.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }
}

pub fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn raise_ends_every_wait() {
        let stop = Stop::default();
        let waiter = stop.clone();
        let thread = thread::spawn(move || waiter.wait(Duration::from_secs(3600)));
        stop.raise();
        assert!(thread.join().unwrap());
        assert!(stop.raised() && stop.wait(Duration::from_secs(3600)));
        stop.wait_until_raised();
    }

    #[test]
    fn a_child_ends_with_its_parent_or_alone() {
        let stop = Stop::default();
        let (first, second) = (stop.child(), stop.child());
        first.raise();
        assert!(first.raised() && !stop.raised() && !second.raised());
        stop.raise();
        assert!(second.raised() && stop.child().raised());
    }

    #[test]
    fn a_wake_between_look_and_wait_is_not_lost() {
        let stop = Stop::default();
        let seen = stop.wakes();
        stop.wake();
        let far = Instant::now() + Duration::from_secs(3600);
        assert!(!stop.wait_for_change(seen, far));
    }
}
