//! Large objects are worked on a few at a time, so that all remotes together keep to the memory that there is.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use shared::{lock::lock, stop::Stop};

use crate::model::object::SMALL;

/// What an answer to such a pass may cost: an object may have grown, and a new one gets what its server adds.
pub(crate) const SMALL_ANSWER: usize = 2 * SMALL;
/// Passes over larger objects at a time, of all remotes together.
const AT_A_TIME: usize = 2;
/// How soon the end of the process is noticed.
const LOOK_UP: Duration = Duration::from_millis(200);

/// The passes over large objects that may begin.
#[derive(Debug)]
pub(crate) struct Permits {
    free: Mutex<usize>,
    changed: Condvar,
}

/// One of them; it is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit<'a>(&'a Permits);

impl Default for Permits {
    fn default() -> Self {
        Self { free: Mutex::new(AT_A_TIME), changed: Condvar::new() }
    }
}

impl Permits {
    /// Waits for a permit; `None` when asked to end.
    pub(crate) fn acquire(&self, stop: &Stop) -> Option<Permit<'_>> {
        let mut free = lock(&self.free);
        while *free == 0 {
            if stop.raised() {
                return None;
            }
            free = self.wait(free);
        }
        *free -= 1;
        Some(Permit(self))
    }

    fn wait<'a>(&self, free: MutexGuard<'a, usize>) -> MutexGuard<'a, usize> {
        let waited = self.changed.wait_timeout(free, LOOK_UP);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_there_are_begin_and_nobody_waits_beyond_the_end() {
        let (permits, stop) = (Permits::default(), Stop::default());
        let held: Vec<_> = (0..AT_A_TIME).map(|_| permits.acquire(&stop)).collect();
        assert!(held.iter().all(Option::is_some));
        std::thread::scope(|scope| {
            let next = scope.spawn(|| permits.acquire(&stop).is_some());
            drop(held);
            assert!(next.join().unwrap());
        });
        let _held: Vec<_> = (0..AT_A_TIME).map(|_| permits.acquire(&stop)).collect();
        stop.raise();
        assert!(permits.acquire(&stop).is_none());
    }
}
