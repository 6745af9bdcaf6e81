//! Futures for changes of length and for appends, on any executor. No thread waits for them: the
//! blocking pool calls `ftruncate(2)`.
//!
//! ```text
//!   future dropped               effect on the file
//!   before the first poll        none
//!   while the length changes     has its new length or the old one
//!   while an append is written   keeps the bytes already written; the rest is cut off
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::borrowed_write::BorrowedWrite;
use crate::error::WriteError;
use crate::file::File;
use crate::owned_write::OwnedWrite;
use crate::write::{WriteBytes, WriteEnd, WritePlace, WriteProgress};

/// Future of a change of length; see [`File::set_len_async`].
#[must_use = "a future does nothing until it is awaited"]
#[derive(Debug)]
pub struct SetLen(WriteProgress);

/// Future of an append of borrowed bytes; see [`File::append_async`].
#[must_use = "a future does nothing until it is awaited"]
#[derive(Debug)]
pub struct Append<'a>(BorrowedWrite<'a>);

/// Future of an append that returns its buffer; see [`File::append_from`].
#[must_use = "a future does nothing until it is awaited"]
#[derive(Debug)]
pub struct AppendFrom<B>(OwnedWrite<B>);

impl File {
    /// Sets the length like [`Self::set_len`], without blocking the thread.
    ///
    /// If the future is dropped after its first poll, the file has either the old or the new
    /// length.
    ///
    /// ```no_run
    /// async fn reserve(file: &foreread::File) -> Result<(), foreread::WriteError> {
    ///     file.set_len_async(1 << 30).await?;
    ///     file.sync_data_async().await
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The future fails like [`Self::set_len`], but never times out.
    pub fn set_len_async(&self, len: u64) -> SetLen {
        SetLen(WriteProgress::new(self.handle(), WritePlace::Length(len)))
    }

    /// Appends like [`Self::append`], without blocking the thread.
    ///
    /// Later appends, and writes past the end, wait until all of this one is in memory. If the
    /// future is dropped before that, the file keeps the bytes already written and the rest is cut
    /// off.
    ///
    /// Once polled, the future must be polled to its end or dropped before the same task awaits
    /// another append to the file or a write past its end; otherwise the task deadlocks.
    /// [`Self::append_from`] has no such rule.
    ///
    /// ```no_run
    /// async fn log(file: &foreread::File, record: &[u8]) -> Result<u64, foreread::WriteError> {
    ///     let offset = file.append_async(record).await?;
    ///     file.sync_data_async().await?;
    ///     Ok(offset)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The future fails like [`Self::append`], but never times out.
    pub fn append_async<'b>(&self, from: &'b [u8]) -> Append<'b> {
        Append(BorrowedWrite::new(from, WriteProgress::new(self.handle(), WritePlace::End)))
    }

    /// Appends the bytes of `buffer` and returns the buffer with the offset, for tasks that cannot
    /// borrow. After its first poll the append proceeds without further polls, even if the future
    /// is forgotten, so later appends wait only until its bytes are in memory. If the future is
    /// dropped before that, the file keeps the bytes already written and the rest is cut off.
    ///
    /// ```no_run
    /// async fn log(file: foreread::File, record: Vec<u8>) -> Result<u64, foreread::WriteError> {
    ///     let (_record, offset) = file.append_from(record).await;
    ///     offset
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The future fails like [`Self::append`], but never times out.
    pub fn append_from<B>(&self, buffer: B) -> AppendFrom<B>
    where
        B: AsRef<[u8]> + Send + Sync + 'static,
    {
        AppendFrom(OwnedWrite::new(buffer, WriteProgress::new(self.handle(), WritePlace::End)))
    }
}

impl Future for SetLen {
    type Output = Result<(), WriteError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self(progress) = self.get_mut();
        progress.poll(WriteBytes::None, context).map(|end| end.result)
    }
}

impl Future for Append<'_> {
    type Output = Result<u64, WriteError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().0.poll(context).map(WriteEnd::or_offset)
    }
}

impl<B: AsRef<[u8]> + Send + Sync + 'static> Future for AppendFrom<B> {
    type Output = (B, Result<u64, WriteError>);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().0.poll(context).map(|(buffer, end)| (buffer, end.or_offset()))
    }
}

impl Drop for SetLen {
    fn drop(&mut self) {
        self.0.abandon(WriteBytes::None);
    }
}
