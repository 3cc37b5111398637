//! Mutex locks that survive the panic of a holder.

use std::sync::{Mutex, MutexGuard};

/// Locks `mutex`, even after another thread's panic: the guarded values are consistent at all times.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
