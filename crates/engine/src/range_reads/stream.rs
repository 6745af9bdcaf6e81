//! The ranges of one read in completion order.

use std::future::poll_fn;
use std::ops::Range;
use std::task::{Context, Poll};

use super::progress::RangeReads;
use crate::error::{ReadError, ReadErrorKind};
use crate::file::File;

/// The number of a range, and its bytes or error: an item of a [`RangeStream`].
pub type RangeItem = (usize, Result<Box<[u8]>, ReadError>);

/// Ranges in completion order. Returned by [`File::read_ranges_stream`].
///
/// It needs no runtime and no trait: a task calls [`Self::next`], a hand-written future calls
/// [`Self::poll_next`], and a thread iterates. With the feature `futures-core` it is a `Stream`,
/// for the combinators of `futures` and `futures-lite`.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
/// for (number, bytes) in file.read_ranges_stream(&[0..4096, 1 << 20..2 << 20]) {
///     println!("range {number} has {} bytes", bytes?.len());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a stream does nothing until it is polled"]
pub struct RangeStream {
    reads: Result<Box<RangeReads>, NotBegun>,
}

/// The state after a failed start, with the number of errors returned so far.
#[derive(Debug)]
struct NotBegun {
    file: File,
    told: usize,
    ranges: usize,
}

impl File {
    /// Reads many byte ranges as [`Self::read_ranges`] does, and returns each as soon as it is
    /// complete, with its number among `ranges`. Each range has separate bytes or a separate error:
    /// a failed range does not end the others.
    ///
    /// The stream reads at most the budget of all range reads ahead of the caller. While it is not
    /// polled it holds neither pages nor budget, except for requests in flight; dropping it cancels
    /// requests that have not started.
    ///
    /// ```no_run
    /// async fn sum(file: &foreread::File) -> Result<u64, foreread::ReadError> {
    ///     let mut ranges = file.read_ranges_stream(&[0..4096, 1 << 20..2 << 20]);
    ///     let mut sum = 0;
    ///     while let Some((_, bytes)) = ranges.next().await {
    ///         sum += bytes?.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    ///     }
    ///     Ok(sum)
    /// }
    /// ```
    pub fn read_ranges_stream(&self, ranges: &[Range<u64>]) -> RangeStream {
        let reads = RangeReads::new(self.handle(), ranges, true);
        let not_begun = |_| NotBegun { file: self.clone(), told: 0, ranges: ranges.len() };
        RangeStream { reads: reads.map(Box::new).map_err(not_begun) }
    }
}

impl NotBegun {
    /// Returns the error of a forked child, once for each range.
    fn next(&mut self) -> Option<RangeItem> {
        let number = self.told;
        self.told += 1;
        let error = || ReadErrorKind::Forked.of(self.file.handle().path.clone());
        (number < self.ranges).then(|| (number, Err(error())))
    }
}

impl RangeStream {
    /// Polls for the next complete range. None once all were returned.
    ///
    /// # Errors
    ///
    /// Each range fails separately, with an error of [`File::read_ranges`].
    pub fn poll_next(&mut self, context: &Context<'_>) -> Poll<Option<RangeItem>> {
        let reads = match &mut self.reads {
            Ok(reads) => reads,
            Err(not_begun) => return Poll::Ready(not_begun.next()),
        };
        loop {
            if let Some(next) = reads.pop() {
                return Poll::Ready(Some(next));
            }
            if reads.is_done() {
                return Poll::Ready(None);
            }
            match reads.poll(context) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(())) => {}
                Err(error) => reads.fail_all(&error),
            }
        }
    }

    /// Waits for the next complete range, without blocking the thread. None once all were returned.
    ///
    /// # Errors
    ///
    /// As [`Self::poll_next`].
    pub async fn next(&mut self) -> Option<RangeItem> {
        poll_fn(|context| self.poll_next(context)).await
    }
}

/// Ranges in completion order, for a thread that blocks. Created from a [`RangeStream`] by `for` or
/// [`IntoIterator::into_iter`].
#[derive(Debug)]
#[must_use = "an iterator does nothing until it is advanced"]
pub struct RangeIter(RangeStream);

impl IntoIterator for RangeStream {
    type Item = RangeItem;
    type IntoIter = RangeIter;

    fn into_iter(self) -> RangeIter {
        RangeIter(self)
    }
}

/// Blocks the thread until the next range is complete.
impl Iterator for RangeIter {
    type Item = RangeItem;

    fn next(&mut self) -> Option<Self::Item> {
        let reads = match &mut self.0.reads {
            Ok(reads) => reads,
            Err(not_begun) => return not_begun.next(),
        };
        loop {
            if let Some(next) = reads.pop() {
                return Some(next);
            }
            if reads.is_done() {
                return None;
            }
            if let Err(error) = reads.wait() {
                reads.fail_all(&error);
            }
        }
    }
}
