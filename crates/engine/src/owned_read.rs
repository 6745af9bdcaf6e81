//! Non-blocking reads that own their buffers, several of which can be in flight on one stream. The
//! kernel never writes to the caller's buffer, so that a read can be dropped at any time.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::error::ReadError;
use crate::handle::Handle;
use crate::read_async::ReadFuture;
use crate::stream::ReadStream;

/// A non-blocking read that owns its buffer. Returned by [`ReadStream::read_owned`].
///
/// For a caller with many reads of one stream in flight, such as a server whose client pipelines
/// requests. A [`crate::ReadAt`] borrows its stream until it is done.
///
/// ```no_run
/// use std::task::{Context, Poll};
///
/// fn two_at_once(stream: &foreread::ReadStream, context: &Context<'_>) {
///     let mut reads = [0, 1 << 20].map(|offset| stream.read_owned(vec![0; 4096], offset));
///     for read in &mut reads {
///         if let Poll::Ready(result) = read.poll(stream, context) {
///             println!("{result:?}");
///         }
///     }
/// }
/// ```
#[must_use = "a fetch does nothing until it is polled"]
pub struct OwnedRead {
    handle: Arc<Handle>,
    buffer: Vec<u8>,
    progress: ReadFuture,
}

impl ReadStream {
    /// Returns a read of up to `buffer.len()` bytes at `offset`, which starts when it is first
    /// polled. Read-ahead sees the reads of a stream in the order in which they started.
    pub fn read_owned(&self, buffer: Vec<u8>, offset: u64) -> OwnedRead {
        let progress = ReadFuture::one_of_several(offset);
        OwnedRead { handle: Arc::clone(&self.handle), buffer, progress }
    }
}

impl OwnedRead {
    /// Polls the read. It is ready with the number of bytes read, which is smaller than the buffer
    /// only at the end of the file. The most recent waker is called when another poll can make
    /// progress. Must not be called again once it was ready.
    ///
    /// # Errors
    ///
    /// As [`ReadStream::read_at`].
    ///
    /// # Panics
    ///
    /// If `stream` belongs to another open file than the stream that created the read.
    pub fn poll(
        &mut self,
        stream: &ReadStream,
        context: &Context<'_>,
    ) -> Poll<Result<usize, ReadError>> {
        assert!(Arc::ptr_eq(&self.handle, &stream.handle), "a fetch is polled with its own stream");
        self.progress.poll(stream, &mut self.buffer, context)
    }

    /// Returns the buffer. Requests in flight continue, and later reads hit their pages.
    #[must_use]
    pub fn into_buffer(mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }
}

impl Drop for OwnedRead {
    fn drop(&mut self) {
        self.progress.abandon(&self.handle.file);
    }
}

impl fmt::Debug for OwnedRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedRead").field("progress", &self.progress).finish_non_exhaustive()
    }
}
