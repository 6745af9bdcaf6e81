//! Bytes of a caller that another thread copies from: the buffer of an owned write.
//!
//! In:    a buffer, which is asked once where its bytes are.
//! Out:   parts of them, from any thread; at the end the buffer itself.
//! Never: a call of the caller's code by another thread, but the last drop.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A part of a shared buffer's bytes, which keeps the buffer.
pub(crate) struct OwnedBytes {
    owner: Arc<dyn Any + Send + Sync>,
    bytes: *const [u8],
}

// SAFETY: the bytes are only read, and their owner is `Sync`: threads may share what it lends.
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
        // SAFETY: `bytes` was borrowed from the buffer, which stays where it is in its `Arc`, of
        // which `owner` is one; and as long as that is so, no other than a shared reference to the
        // buffer is to be had. So the loan can go on for as long as `self` lives.
        unsafe { &*self.bytes }
    }

    /// A part of the bytes.
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
