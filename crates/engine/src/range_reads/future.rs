//! Asynchronous reads of many ranges. The future can be dropped at any time, because the kernel
//! never writes to its buffers.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::progress::RangeReads;
use crate::error::ReadError;
use crate::file::File;

/// A read of many ranges in flight. Returned by [`File::read_ranges_async`].
///
/// ```no_run
/// async fn blocks(file: &foreread::File) -> Result<Vec<Box<[u8]>>, foreread::ReadError> {
///     file.read_ranges_async(&[0..4096, 1 << 20..(1 << 20) + 4096]).await
/// }
/// ```
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct ReadRanges {
    /// Or the error that prevented it from starting; None once the error was returned or the read
    /// has ended.
    reads: Result<Box<RangeReads>, Option<ReadError>>,
    all: Vec<Box<[u8]>>,
}

impl File {
    /// Reads many byte ranges as [`Self::read_ranges`] does, without blocking the thread: for tasks
    /// of any executor.
    ///
    /// Dropping the future cancels requests that have not started. A future that is not polled
    /// holds neither pages nor budget, except for requests in flight.
    ///
    /// ```no_run
    /// async fn blocks(file: &foreread::File) -> Result<Vec<Box<[u8]>>, foreread::ReadError> {
    ///     file.read_ranges_async(&[0..4096, 1 << 20..(1 << 20) + 4096]).await
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The future fails as [`Self::read_ranges`] does.
    pub fn read_ranges_async(&self, ranges: &[Range<u64>]) -> ReadRanges {
        let reads = RangeReads::new(self.handle(), ranges, false);
        let mut all = Vec::new();
        all.resize_with(reads.as_ref().map_or(0, RangeReads::len), Box::default);
        ReadRanges { reads: reads.map(Box::new).map_err(Some), all }
    }
}

impl ReadRanges {
    fn step(&mut self, context: &Context<'_>) -> Result<Poll<Vec<Box<[u8]>>>, ReadError> {
        let reads = match &mut self.reads {
            Ok(reads) => reads,
            Err(error) => return Err(error.take().expect("it is not polled after its end")),
        };
        loop {
            while let Some((number, result)) = reads.pop() {
                self.all[number] = result?;
            }
            if reads.is_done() {
                return Ok(Poll::Ready(std::mem::take(&mut self.all)));
            }
            if reads.poll(context)?.is_pending() {
                return Ok(Poll::Pending);
            }
        }
    }
}

impl Future for ReadRanges {
    type Output = Result<Vec<Box<[u8]>>, ReadError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let result = match this.step(context) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(all)) => Ok(all),
            Err(error) => Err(error),
        };
        this.reads = Err(None);
        Poll::Ready(result)
    }
}
