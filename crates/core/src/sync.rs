//! The atomics of the page table, and memory that starts as zeros.
//!
//! In:    a length.
//! Out:   core's atomics, or loom's when the model checker builds the crate (`--cfg loom`).
//! Never: a lock. Which ordering an access needs is said where the access is.

use alloc::boxed::Box;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// `len` atomics that hold 0, in memory that the system hands out page by page as it is written.
///
/// Why not a loop that stores zeros: the table is sized for its worst case, 12 % of the bound, and
/// a loop would make all of it resident before the first read.
#[cfg(not(loom))]
pub(crate) fn zeroed(len: usize) -> Box<[AtomicU64]> {
    let words = Box::<[AtomicU64]>::new_zeroed_slice(len);
    // SAFETY: every byte is zero, and an AtomicU64 has the same representation as a u64, for which
    // all bit patterns are valid.
    unsafe { words.assume_init() }
}

/// The same for loom, whose atomics are more than their bits.
#[cfg(loom)]
pub(crate) fn zeroed(len: usize) -> Box<[AtomicU64]> {
    (0..len).map(|_| AtomicU64::new(0)).collect()
}
