//! Reads on their way, of which one stream may have several.
//!
//! In:    a buffer, an offset; polls.
//! Out:   the same buffer, filled.
//! Never: a thread that waits. A buffer that the kernel writes to: a fetch may be dropped at any
//!        time.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::error::ReadError;
use crate::handle::Handle;
use crate::read_async::ReadFuture;
use crate::stream::ReadStream;

/// A read that does not block, with a buffer of its own. Made by [`ReadStream::read_owned`].
///
/// For a caller with many reads of one stream in flight, such as a server of a client that
/// pipelines: a [`crate::ReadAt`] borrows its stream for as long as it takes.
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
    /// Returns a read of as many bytes as `buffer` has, from `offset` on, which begins when it is
    /// first polled. Read-ahead sees the reads of a stream in the order in which they began.
    pub fn read_owned(&self, buffer: Vec<u8>, offset: u64) -> OwnedRead {
        let progress = ReadFuture::one_of_several(offset);
        OwnedRead { handle: Arc::clone(&self.handle), buffer, progress }
    }
}

impl OwnedRead {
    /// Polls the read. Ready with the number of bytes: fewer than asked only at the end of the
    /// file. The waker of the last call is woken when it is worth another call. Not to be called
    /// again after it was ready.
    ///
    /// # Errors
    ///
    /// As [`ReadStream::read_at`].
    ///
    /// # Panics
    ///
    /// If `stream` is not the one that made it, or another of the same open file.
    pub fn poll(
        &mut self,
        stream: &ReadStream,
        context: &Context<'_>,
    ) -> Poll<Result<usize, ReadError>> {
        assert!(Arc::ptr_eq(&self.handle, &stream.handle), "a fetch is polled with its own stream");
        self.progress.poll(stream, &mut self.buffer, context)
    }

    /// Returns the buffer. Requests in flight go on, and later reads find their pages.
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
