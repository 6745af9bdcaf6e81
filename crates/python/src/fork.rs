//! Forks: a child must not wait for a lock that a thread of its parent held.
//!
//! In:    a call from `os.register_at_fork` in each child.
//! Out:   whether the process is still that in which a file was opened.
//! Never: a system call on the way of a cached read.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

use crate::shutdown::forget_threads;

/// How often this process and its ancestors were forked, counted in the children.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Notes that this process is a child that was just forked.
#[pyfunction]
pub(crate) fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    forget_threads();
}

/// The process in which something was made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ProcessStamp(u64);

impl ProcessStamp {
    /// Returns that of this process.
    pub(crate) fn now() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is the process in which the stamp was made.
    pub(crate) fn is_here(self) -> bool {
        self == Self::now()
    }
}
