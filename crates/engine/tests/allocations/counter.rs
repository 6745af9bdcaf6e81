//! How many bytes a process has allocated, to the byte, whatever the system has given it for them.
//!
//! In:    a process with one test, whose allocator this is.
//! Out:   the bytes allocated at this moment.
//! Never: pages that are resident: their number depends on huge pages, stacks and the allocator.

#![allow(unreachable_pub, reason = "a module shared by several test crates")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counted.
struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

static ALLOCATED: AtomicU64 = AtomicU64::new(0);

// The other calls of the trait are made of these two.
// SAFETY: every call goes to the system's allocator as it came, and counting allocates nothing.
unsafe impl GlobalAlloc for Counted {
    // SAFETY: the caller's part is that of the system's allocator.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller vouches for the layout.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller's part is that of the system's allocator.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller vouches for both, and the memory is the system allocator's.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// The bytes that are allocated now.
pub fn allocated_bytes() -> u64 {
    ALLOCATED.load(Ordering::Relaxed)
}
