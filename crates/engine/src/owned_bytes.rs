//! The buffer of an owned write, from which other threads copy. The caller's code runs on the
//! calling thread only, once, to locate the bytes; other threads at most drop the buffer.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Part of a shared buffer's bytes, which keeps the buffer alive.
pub(crate) struct OwnedBytes {
    owner: Arc<dyn Any + Send + Sync>,
    bytes: *const [u8],
}

// SAFETY: the bytes are only read, and their owner is `Sync`, so that threads may share its loans.
unsafe impl Send for OwnedBytes {}
// SAFETY: as above.
unsafe impl Sync for OwnedBytes {}

impl OwnedBytes {
    pub(crate) fn new<B: AsRef<[u8]> + Send + Sync + 'static>(buffer: &Arc<B>) -> Self {
        let bytes: *const [u8] = B::as_ref(buffer);
        let owner: Arc<dyn Any + Send + Sync> = Arc::<B>::clone(buffer);
        Self { owner, bytes }
    }

    pub(crate) fn get(&self) -> &[u8] {
        // SAFETY: `bytes` was borrowed from the buffer, which stays in place in its `Arc`, of which
        // `owner` is one handle. As long as that handle exists, only shared references to the
        // buffer can be obtained, so that the loan is valid as long as `self` lives.
        unsafe { &*self.bytes }
    }

    /// Returns part of the bytes.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        let bytes: *const [u8] = &raw const self.get()[range];
        Self { owner: Arc::clone(&self.owner), bytes }
    }
}

impl fmt::Debug for OwnedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedBytes").field("len", &self.bytes.len()).finish_non_exhaustive()
    }
}
