//! Changes of length, and appends, that do not block: futures for any executor.
//!
//! In:    a length, or bytes for the end of a file; polls.
//! Out:   the file is as long as asked; where an append begins; or why not.
//! Never: a thread that waits for one of them: `ftruncate(2)` is called by the blocking pool.
//!
//! ```text
//!   dropped                      what becomes of it
//!   before the first poll        nothing
//!   while the length changes     the file has its new length, or the old one
//!   while an append is written   the file keeps what is written; the rest is cut off
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::borrowed_write::BorrowedWrite;
use crate::error::WriteError;
use crate::file::File;
use crate::owned_write::OwnedWrite;
use crate::read_into::BufResult;
use crate::write::{WriteBytes, WriteEnd, WritePlace, WriteProgress};

/// A change of length on its way. Made by [`File::set_len_async`].
#[must_use = "a future does nothing until it is awaited"]
#[derive(Debug)]
pub struct SetLen(WriteProgress);

/// An append on its way. Made by [`File::append_async`].
#[must_use = "a future does nothing until it is awaited"]
#[derive(Debug)]
pub struct Append<'a>(BorrowedWrite<'a>);

/// An append on its way of a buffer that comes back. Made by [`File::append_from`].
#[must_use = "a future does nothing until it is awaited"]
#[derive(Debug)]
pub struct AppendFrom<B>(OwnedWrite<B>);

impl File {
    /// Sets the length as [`Self::set_len`] does, without blocking the thread.
    ///
    /// A future that is dropped after its first poll leaves the file with one of the two lengths.
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
    /// The future's are those of [`Self::set_len`], but for time-outs.
    pub fn set_len_async(&self, len: u64) -> SetLen {
        SetLen(WriteProgress::new(self.handle(), WritePlace::Length(len)))
    }

    /// Appends as [`Self::append`] does, without blocking the thread.
    ///
    /// Later appends, and writes past the end, wait until all of this one is in memory. Of a future
    /// that is dropped before, the file keeps what was written, and the rest is cut off.
    ///
    /// A future that has begun has to be polled or dropped before the same task awaits another
    /// append to the file, or a write past its end: else that waits for ever. [`Self::append_from`]
    /// has no such rule.
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
    /// The future's are those of [`Self::append`], but for time-outs.
    pub fn append_async<'b>(&self, from: &'b [u8]) -> Append<'b> {
        Append(BorrowedWrite::new(from, WriteProgress::new(self.handle(), WritePlace::End)))
    }

    /// Appends the bytes of `buffer`, and gives it back with the offset: for tasks that cannot
    /// borrow. After its first poll the append goes on without polls, also if the future is
    /// forgotten, so that later appends wait only until its bytes are in memory. Of a future that
    /// is dropped before, the file keeps what was written, and the rest is cut off.
    ///
    /// ```no_run
    /// async fn log(file: foreread::File, record: Vec<u8>) -> Result<u64, foreread::WriteError> {
    ///     let (offset, _record) = file.append_from(record).await;
    ///     offset
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The future's are those of [`Self::append`], but for time-outs.
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
    type Output = BufResult<u64, WriteError, B>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().0.poll(context).map(|(end, buffer)| (end.or_offset(), buffer))
    }
}

impl Drop for SetLen {
    fn drop(&mut self) {
        self.0.abandon(WriteBytes::None);
    }
}
