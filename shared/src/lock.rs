//! A lock that survives its holders.

use std::sync::{Mutex, MutexGuard};

/// Locks `mutex`, also after another thread's panic: whoever uses this leaves what it guards whole at
/// every moment.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
