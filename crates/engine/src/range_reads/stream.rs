//! The ranges of one read in the order in which they are complete.
//!
//! In:    polls, or a thread that waits.
//! Out:   each range once, with its number: its bytes, or its own error.
//! Never: more read ahead of the caller than the budget of all range reads. An end before each
//!        range has had its answer.

use std::future::poll_fn;
use std::ops::Range;
use std::task::{Context, Poll};

use super::progress::RangeReads;
use crate::error::ReadError;
use crate::file::File;

/// The number of a range, and its bytes or its own error: what a [`RangeStream`] gives.
pub type RangeItem = (usize, Result<Box<[u8]>, ReadError>);

/// Ranges in the order in which they are complete. Made by [`File::read_ranges_stream`].
///
/// It needs no runtime and no trait: a task takes the next range by [`Self::next`], a hand-written
/// future by [`Self::poll_next`], and a thread iterates. With the feature `futures-core` it is a
/// `Stream`, for the combinators of `futures` and `futures-lite`.
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

/// Why no range can be read, and how many have not been told.
#[derive(Debug)]
struct NotBegun {
    file: File,
    told: usize,
    ranges: usize,
}

impl File {
    /// Reads many byte ranges as [`Self::read_ranges`] does, and gives each as soon as it is
    /// complete, with its number among `ranges`. Each range has its own bytes, or its own error:
    /// one that fails does not end the others.
    ///
    /// No more is read ahead of the caller than the budget of all range reads. A stream that is not
    /// polled holds neither pages nor budget, but for what is in flight; one that is dropped
    /// cancels what has not started.
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
    /// In a forked child each range has that error.
    fn next(&mut self) -> Option<RangeItem> {
        let number = self.told;
        self.told += 1;
        let error = || ReadError::Forked { path: self.file.handle().path.clone() };
        (number < self.ranges).then(|| (number, Err(error())))
    }
}

impl RangeStream {
    /// Polls for the next range that is complete. None when each was given.
    ///
    /// # Errors
    ///
    /// Each range has its own: those of [`File::read_ranges`].
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

    /// Waits for the next range that is complete, without blocking the thread. None when each was
    /// given.
    ///
    /// # Errors
    ///
    /// As [`Self::poll_next`].
    pub async fn next(&mut self) -> Option<RangeItem> {
        poll_fn(|context| self.poll_next(context)).await
    }
}

/// Ranges in the order in which they are complete, for a thread that waits. Made from a
/// [`RangeStream`] by `for` or [`IntoIterator::into_iter`].
#[derive(Debug)]
#[must_use = "an iterator does nothing until it is asked"]
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
