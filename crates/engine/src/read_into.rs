//! Reads into a buffer that is returned with the result: futures that borrow nothing. The kernel
//! never writes to the caller's buffer, so that such a future can be dropped at any time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::error::ReadError;
use crate::file::File;
use crate::read_async::ReadFuture;
use crate::stream::ReadStream;

/// An asynchronous read that owns its buffer. Returned by [`File::read_into`].
#[must_use = "a future does nothing until it is awaited"]
pub struct ReadInto<B> {
    stream: ReadStream,
    /// None once the result has been returned.
    buffer: Option<B>,
    progress: ReadFuture,
}

impl File {
    /// Reads up to `buffer.len()` bytes as [`Self::read_at_async`] does, and returns the buffer
    /// with the result: for tasks that cannot borrow.
    ///
    /// Dropping the future cancels the read and drops the buffer.
    ///
    /// ```no_run
    /// async fn header(file: foreread::File) -> Result<Vec<u8>, foreread::ReadError> {
    ///     let (mut buffer, read) = file.read_into(vec![0; 512], 0).await;
    ///     buffer.truncate(read?);
    ///     Ok(buffer)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The future fails as [`Self::read_at`] does.
    pub fn read_into<B: AsMut<[u8]>>(&self, buffer: B, offset: u64) -> ReadInto<B> {
        let (stream, progress) = (self.stream(), ReadFuture::lone(offset));
        ReadInto { stream, buffer: Some(buffer), progress }
    }
}

impl<B: AsMut<[u8]>> Future for ReadInto<B> {
    type Output = (B, Result<usize, ReadError>);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let buffer = this.buffer.as_mut().expect("a read is not polled after it has ended");
        let result = ready!(this.progress.poll(&this.stream, buffer.as_mut(), context));
        let buffer = this.buffer.take().expect("it was there a moment ago");
        Poll::Ready((buffer, result))
    }
}

/// The buffer is never pinned.
impl<B> Unpin for ReadInto<B> {}

impl<B> Drop for ReadInto<B> {
    fn drop(&mut self) {
        self.progress.abandon(&self.stream.handle.file);
    }
}

impl<B> fmt::Debug for ReadInto<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadInto").field("progress", &self.progress).finish_non_exhaustive()
    }
}
