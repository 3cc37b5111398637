//! The one way to take a lock.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock that another thread's panic doesn't take away: what it guards is always whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
