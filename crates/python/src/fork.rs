//! Fork detection: a child must not wait for a lock held by a thread of its parent.
//! `os.register_at_fork` counts forks, so that a cached read needs no system call to check.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

use crate::shutdown::forget_threads;

/// Number of forks between the first ancestor and this process.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Records that this process is a newly forked child.
#[pyfunction]
pub(crate) fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    forget_threads();
}

/// Identity of the process in which an object was created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ProcessStamp(u64);

impl ProcessStamp {
    /// Returns the stamp of this process.
    pub(crate) fn now() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Returns true in the process in which the stamp was made.
    pub(crate) fn is_here(self) -> bool {
        self == Self::now()
    }
}
