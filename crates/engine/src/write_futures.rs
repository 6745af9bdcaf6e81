//! Writes of tasks together with their bytes: borrowed, or of a buffer that comes back.
//!
//! In:    bytes and where they go; polls.
//! Out:   how the write ended, and the buffer.
//! Never: a write that goes on without its bytes: a drop leaves it.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::owned_bytes::OwnedBytes;
use crate::write::{WriteBytes, WriteEnd, WriteProgress};

/// A write of borrowed bytes.
pub(crate) struct BorrowedWrite<'a> {
    from: &'a [u8],
    pub(crate) progress: WriteProgress,
}

/// A write of a buffer that comes back with the result.
pub(crate) struct OwnedWrite<B> {
    /// None after the result.
    buffer: Option<Arc<B>>,
    bytes: Option<OwnedBytes>,
    pub(crate) progress: WriteProgress,
}

impl<'a> BorrowedWrite<'a> {
    pub(crate) fn new(from: &'a [u8], progress: WriteProgress) -> Self {
        Self { from, progress }
    }

    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<WriteEnd> {
        self.progress.poll(WriteBytes::Borrowed(self.from), context)
    }
}

impl<B: AsRef<[u8]> + Send + Sync + 'static> OwnedWrite<B> {
    pub(crate) fn new(buffer: B, progress: WriteProgress) -> Self {
        let buffer = Arc::new(buffer);
        let bytes = Some(OwnedBytes::new(&buffer));
        Self { buffer: Some(buffer), bytes, progress }
    }

    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<(WriteEnd, B)> {
        let owned = self.bytes.as_ref().expect("a write is not polled after it has ended");
        let end = ready!(self.progress.poll(WriteBytes::Owned(owned), context));
        self.bytes = None;
        let buffer = self.buffer.take().and_then(Arc::into_inner);
        let buffer = buffer.expect("each piece drops its part before it is filled");
        Poll::Ready((end, buffer))
    }
}

/// Its buffer is never pinned.
impl<B> Unpin for OwnedWrite<B> {}

impl Drop for BorrowedWrite<'_> {
    fn drop(&mut self) {
        self.progress.abandon(WriteBytes::Borrowed(self.from));
    }
}

impl<B> Drop for OwnedWrite<B> {
    fn drop(&mut self) {
        if let Some(bytes) = &self.bytes {
            self.progress.abandon(WriteBytes::Owned(bytes));
        }
    }
}

impl fmt::Debug for BorrowedWrite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BorrowedWrite").field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl<B> fmt::Debug for OwnedWrite<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedWrite").field("progress", &self.progress).finish_non_exhaustive()
    }
}
