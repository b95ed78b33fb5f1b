//! Locking that outlives a panic: a request that panics must not take the tables that others use with it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after another holder panicked. Every table guarded this way stays consistent between statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
