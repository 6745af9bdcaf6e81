//! Atomics of the page table, and zeroed memory.
//!
//! With `--cfg loom` these are the model checker's atomics. The reason for each memory ordering is
//! given at the access.

use alloc::boxed::Box;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// Returns `len` zeroed atomics, in memory that the system allocates page by page on the first
/// write.
///
/// A loop that stores zeros would make the whole table resident before the first read. The table is
/// sized for its worst case, 12 % of the memory limit.
#[cfg(not(loom))]
pub(crate) fn zeroed(len: usize) -> Box<[AtomicU64]> {
    let words = Box::<[AtomicU64]>::new_zeroed_slice(len);
    // SAFETY: every byte is zero, and an AtomicU64 has the same representation as a u64, for which
    // all bit patterns are valid.
    unsafe { words.assume_init() }
}

/// The same for loom, whose atomics hold more than their bits.
#[cfg(loom)]
pub(crate) fn zeroed(len: usize) -> Box<[AtomicU64]> {
    (0..len).map(|_| AtomicU64::new(0)).collect()
}
