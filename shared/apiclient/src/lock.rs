//! Mutex locks that survive the panic of a holder.

use std::sync::{Mutex, MutexGuard};

/// Locks `mutex`, also after another thread's panic: its users keep the guarded value consistent at every
/// moment.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
