//! Asynchronous writes and flushes: futures for any executor. The driver waits for memory, the rest
//! of a page and the device. Only `fdatasync(2)` blocks a thread, of a shared pool.
//!
//! ```text
//!   dropped                     effect
//!   before the first poll       nothing is written
//!   later                       each piece of at most 1 MiB is written or not: those that are
//!                               done, or have their pages, are; no page is written in part
//!   a flush                     no future waits for it; it may not reach the device
//! ```

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use foreread_core::path::{IoPath, WriteMode};

use crate::borrowed_write::BorrowedWrite;
use crate::error::WriteError;
use crate::file::File;
use crate::handle::Handle;
use crate::owned_write::OwnedWrite;
use crate::task_step::TaskStep;
use crate::write::{WriteBytes, WriteEnd, WritePlace, WriteProgress, WriteTask};

/// A write in flight that may end short at an error. Returned by [`File::write_at_async`].
#[must_use = "a future does nothing until it is awaited"]
#[derive(Debug)]
pub struct WriteAt<'a>(BorrowedWrite<'a>);

/// A write in flight that writes all bytes or fails. Returned by [`File::write_all_at_async`].
#[must_use = "a future does nothing until it is awaited"]
#[derive(Debug)]
pub struct WriteAllAt<'a>(WriteAt<'a>);

/// A write in flight that owns its buffer and returns it. Returned by [`File::write_from`].
#[must_use = "a future does nothing until it is awaited"]
#[derive(Debug)]
pub struct WriteFrom<B>(OwnedWrite<B>);

/// A flush in flight. Returned by [`File::sync_data_async`] and [`File::sync_all_async`].
#[must_use = "a future does nothing until it is awaited"]
#[derive(Debug)]
pub struct SyncData {
    handle: Arc<Handle>,
    /// Flushes the file's metadata too.
    all: bool,
    task: WriteTask,
    is_done: bool,
}

impl File {
    /// Writes as [`Self::write_at`] does, without blocking the thread: for tasks of any executor.
    /// It does not grow the file, because that waits for the file system.
    ///
    /// The future can be dropped at any time. Before its first poll it has written nothing. Later,
    /// each of its pieces of at most 1 MiB is written or not, in order, and none in part. Between
    /// its first poll and its end or drop, a write may hold pages that other writes wait for: keep
    /// polling it or drop it, and do not block the thread in between with a write to the same
    /// pages. [`Self::write_from`] has no such rule.
    ///
    /// ```no_run
    /// async fn mark(file: &foreread::File) -> Result<(), foreread::WriteError> {
    ///     let written = file.write_at_async(b"mark", 4096).await?;
    ///     assert_eq!(written, 4);
    ///     file.sync_data_async().await
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The future fails as [`Self::write_at`] does, but never times out: time-outs are up to the
    /// executor.
    pub fn write_at_async<'b>(&self, from: &'b [u8], offset: u64) -> WriteAt<'b> {
        let progress = WriteProgress::new(self.handle(), WritePlace::At(offset));
        WriteAt(BorrowedWrite::new(from, progress))
    }

    /// Writes as [`Self::write_all_at`] does, without blocking the thread, and with the guarantees
    /// of [`Self::write_at_async`] for a dropped future.
    ///
    /// ```no_run
    /// async fn mark(file: &foreread::File) -> Result<(), foreread::WriteError> {
    ///     file.write_all_at_async(&[1; 8192], 4096).await
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The future fails as [`Self::write_all_at`] does, but never times out.
    pub fn write_all_at_async<'b>(&self, from: &'b [u8], offset: u64) -> WriteAllAt<'b> {
        WriteAllAt(self.write_at_async(from, offset))
    }

    /// Writes the bytes of `buffer` as [`Self::write_at`] does, without blocking the thread, and
    /// returns the buffer with the result: for tasks that cannot borrow.
    ///
    /// After its first poll the write proceeds without polls, on any thread that drives, so that no
    /// other write waits for this future. A drop has the effect described at
    /// [`Self::write_at_async`].
    ///
    /// ```no_run
    /// async fn store(file: foreread::File, page: Vec<u8>) -> Result<(), foreread::WriteError> {
    ///     let (page, written) = file.write_from(page, 4096).await;
    ///     assert_eq!(written?, page.len()); // and `page` may be filled again
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The future fails as [`Self::write_at`] does, but never times out.
    pub fn write_from<B>(&self, buffer: B, offset: u64) -> WriteFrom<B>
    where
        B: AsRef<[u8]> + Send + Sync + 'static,
    {
        let progress = WriteProgress::new(self.handle(), WritePlace::At(offset));
        WriteFrom(OwnedWrite::new(buffer, progress))
    }

    /// Flushes as [`Self::sync_data`] does, without blocking the thread: for tasks of any executor.
    ///
    /// Dropping the future stops waiting for the flush. Dirty pages still go to the device, but
    /// only a completed flush confirms that they are durable.
    ///
    /// ```no_run
    /// async fn commit(file: &foreread::File, log: &[u8]) -> Result<(), foreread::WriteError> {
    ///     file.write_all_at_async(log, 0).await?;
    ///     file.sync_data_async().await // from here on no power cut takes it away
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The future fails as [`Self::sync_data`] does, but never times out.
    pub fn sync_data_async(&self) -> SyncData {
        SyncData::new(self, false)
    }

    /// Flushes as [`Self::sync_all`] does, without blocking the thread.
    ///
    /// # Errors
    ///
    /// The future fails as [`Self::sync_all`] does, but never times out.
    pub fn sync_all_async(&self) -> SyncData {
        SyncData::new(self, true)
    }
}

impl SyncData {
    fn new(file: &File, all: bool) -> Self {
        let (handle, task) = (Arc::clone(file.handle()), WriteTask::default());
        Self { handle, all, task, is_done: false }
    }
}

impl WriteAt<'_> {
    /// Sets the write mode of this write alone. Call it before the first poll.
    pub fn with_mode(mut self, mode: WriteMode) -> Self {
        self.0.progress.mode = mode;
        self
    }
}

impl WriteAllAt<'_> {
    /// Sets the write mode of this write alone. Call it before the first poll.
    pub fn with_mode(self, mode: WriteMode) -> Self {
        Self(self.0.with_mode(mode))
    }
}

impl<B> WriteFrom<B> {
    /// Sets the write mode of this write alone. Call it before the first poll.
    pub fn with_mode(mut self, mode: WriteMode) -> Self {
        self.0.set_mode(mode);
        self
    }
}

impl Future for WriteAt<'_> {
    type Output = Result<usize, WriteError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().0.poll(context).map(WriteEnd::or_written)
    }
}

impl Future for WriteAllAt<'_> {
    type Output = Result<(), WriteError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self(WriteAt(write)) = self.get_mut();
        write.poll(context).map(|end| end.result)
    }
}

impl<B: AsRef<[u8]> + Send + Sync + 'static> Future for WriteFrom<B> {
    type Output = (B, Result<usize, WriteError>);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().0.poll(context).map(|(buffer, end)| (buffer, end.or_written()))
    }
}

impl Future for SyncData {
    type Output = Result<(), WriteError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { handle, all, task, is_done } = self.get_mut();
        assert!(!*is_done, "a flush is not polled after it has ended");
        let file = &handle.file;
        if !task.is_begun() {
            if !file.backend.is_writable() {
                *is_done = true;
                return Poll::Ready(Ok(()));
            }
            let step = TaskStep::sync(file, *all);
            let begin = |path: &mut IoPath, now| path.flush(now, file.id);
            if let Err(error) = task.begin(handle, "flush", 0, Some(step), begin) {
                *is_done = true;
                return Poll::Ready(Err(error));
            }
        }
        let result = ready!(task.poll(handle, WriteBytes::None, context));
        *is_done = true;
        Poll::Ready(result.map(drop))
    }
}

impl Drop for SyncData {
    fn drop(&mut self) {
        self.task.abandon(&self.handle.file, WriteBytes::None);
    }
}
