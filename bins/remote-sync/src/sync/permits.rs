//! Permits for large objects: only a few pairs that have one are reconciled at a time, so that all remotes
//! together stay within the memory limit.

use std::{mem, sync::Mutex, time::Instant};

use apiclient::{lock::lock, stop::Stop};

use crate::model::object::SMALL;

/// Memory that a response may cost without a permit: an object may have grown, and its server adds fields.
pub(crate) const SMALL_RESPONSE: usize = 2 * SMALL;
/// Permits of all remotes together.
const AT_A_TIME: usize = 2;

/// The permits that are free.
#[derive(Debug)]
pub(crate) struct Permits(Mutex<PermitState>);

#[derive(Debug)]
struct PermitState {
    free: usize,
    /// To be woken when a permit is returned.
    waiting: Vec<Stop>,
}

/// A permit, returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit<'a>(&'a Permits);

impl Default for Permits {
    fn default() -> Self {
        Self(Mutex::new(PermitState { free: AT_A_TIME, waiting: Vec::new() }))
    }
}

impl Permits {
    /// Waits for a permit; `None` if `stop` was raised.
    pub(crate) fn acquire(&self, stop: &Stop) -> Option<Permit<'_>> {
        loop {
            let seen = stop.wakes();
            let mut state = lock(&self.0);
            if state.free > 0 {
                state.free -= 1;
                return Some(Permit(self));
            }
            state.waiting.push(stop.clone());
            drop(state);
            if stop.wait_for_change(seen, Instant::now() + Stop::SLICE) {
                return None;
            }
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.0);
        state.free += 1;
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.iter().for_each(Stop::wake);
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
        std::thread::scope(|scope| {
            let next = scope.spawn(|| permits.acquire(&stop).is_none());
            stop.raise();
            assert!(next.join().unwrap());
        });
    }
}
