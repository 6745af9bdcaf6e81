//! Locks of an overlay, which a panic does not poison.
//!
//! In:    a mutex.
//! Out:   its guard.
//! Never: in tests that give each client a turn, a wait for a client whose turn it is not.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits for the lock.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(test)]
    while let Err(std::sync::TryLockError::WouldBlock) = mutex.try_lock() {
        if !super::turns::pass() {
            break;
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
