//! The image as a source of the ext4 reader, read through the engine.
//!
//! Metadata is never read ahead in windows, only in the ranges given to `will_need`.
//!
//! ```text
//!   inodes, directories, maps --> streams, one for each thread that reads  \
//!   contents without a layout --> the threads' own streams, windows ahead   > one file, one bound
//!   read-ahead                --> will_need, near ranges joined            /
//! ```

use std::io;
use std::iter;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use foreread::{Advice, File, ReadStream};
use foreread_ext4::BlockSource;

/// An image or a device opened in the engine.
#[derive(Debug)]
pub(crate) struct ImageSource {
    pub(crate) file: File,
    /// Byte range of the image in the file: all of it, or a partition.
    range: Range<u64>,
    /// Idle streams. There are at most as many as threads that read.
    idle: Mutex<Vec<ReadStream>>,
    /// Ranges of each batch request.
    #[cfg(test)]
    pub(crate) batches: Mutex<Vec<Vec<Range<u64>>>>,
}

impl ImageSource {
    /// Creates a source from a whole file.
    #[cfg(test)]
    pub(crate) fn new(file: File) -> Self {
        let range = 0..file.len();
        Self::part(file, range)
    }

    /// Creates a source from a byte range inside a file.
    pub(crate) fn part(file: File, range: Range<u64>) -> Self {
        assert!(range.start <= range.end, "a range");
        assert!(range.end <= file.len(), "inside of the file");
        // Superblock and descriptors in one round trip. A later read reports errors.
        let head = range.start..range.start.saturating_add(HEAD_BYTES);
        let _ = file.will_need(iter::once(head));
        Self {
            file,
            range,
            idle: Mutex::default(),
            #[cfg(test)]
            batches: Mutex::default(),
        }
    }

    /// Fills `to` if all of it is cached. Never waits for the device.
    pub(crate) fn try_read(&self, offset: u64, to: &mut [u8]) -> bool {
        self.with_stream(|stream| stream.try_read_at(to, self.place(offset)))
    }

    /// Returns the offset in the file of a byte of the image.
    pub(crate) fn place(&self, offset: u64) -> u64 {
        self.range.start.saturating_add(offset)
    }

    /// Requests ranges that will be needed, in order of offset.
    ///
    /// ```text
    ///   ranges   |--|     |--|  |-|                   |--|
    ///            |-- one request -|                   |--|      a gap that costs less than
    ///                                                           another request is read along
    /// ```
    ///
    /// `widen` adjusts that gap. Returns the requested ranges. Errors are ignored, because a read
    /// of the bytes returns them again.
    pub(crate) fn will_need(
        &self,
        ranges: Vec<Range<u64>>,
        widen: impl FnOnce(u64) -> u64,
    ) -> Vec<Range<u64>> {
        let gap = if ranges.len() > 1 { widen(self.gap_bytes()).min(GAP_MAX) } else { 0 };
        let joined = joined(ranges, gap);
        #[cfg(test)]
        self.batches.lock().expect("no test panics here").push(joined.clone());
        if !joined.is_empty() {
            let in_file = joined.iter().map(|range| self.place(range.start)..self.place(range.end));
            let _ = self.file.will_need(in_file);
        }
        joined
    }

    /// Returns the number of bytes that cost as much as one more request in a batch.
    fn gap_bytes(&self) -> u64 {
        let bytes = self.request_bytes().map(|(bytes, at_once)| bytes / at_once);
        bytes.unwrap_or(GAP_UNKNOWN).min(GAP_MAX)
    }

    /// Returns the number of bytes transferred in the latency of a request, and the number of
    /// requests served in parallel. None while the device is unknown.
    ///
    /// ```text
    ///   disk     |seek|...bytes...      one request after another: a gap is read along if it takes
    ///                                   less than the seek
    ///   store    |- round trip -|..     32 requests at once: each costs the others a part of a
    ///            |- round trip -|..     round trip, and its reader all of it
    /// ```
    pub(crate) fn request_bytes(&self) -> Option<(u64, u64)> {
        let model = self.file.device().expected_model().ok()??;
        let kib = model.per_request_ns / model.per_kib_ns?.max(1.0);
        // The cast from float saturates.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
        let bytes = (kib * 1024.0) as u64;
        Some((bytes, u64::from(model.parallel.unwrap_or(1).max(1))))
    }

    fn with_stream<T>(&self, read: impl FnOnce(&ReadStream) -> T) -> T {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = idle().pop().unwrap_or_else(|| {
            let stream = self.file.stream();
            // Inodes and directory blocks are scattered; blocks after one belong to others.
            stream.advise(Advice::Random);
            stream
        });
        let answer = read(&stream);
        idle().push(stream);
        answer
    }
}

impl BlockSource for ImageSource {
    fn size(&self) -> io::Result<u64> {
        Ok(self.range.end - self.range.start)
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        let len = self.with_stream(|stream| stream.read_at(to, self.place(offset)));
        whole(len.map_err(io::Error::other)?, to)
    }

    fn read_contents(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        whole(self.file.read_at(to, self.place(offset)).map_err(io::Error::other)?, to)
    }
}

fn whole(len: usize, to: &[u8]) -> io::Result<()> {
    if len == to.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Sorts ranges, and joins those with at most this gap in between.
fn joined(mut ranges: Vec<Range<u64>>, gap: u64) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => {
                last.end = last.end.max(range.end);
            }
            Some(_) | None => joined.push(range),
        }
    }
    joined
}

/// The superblock, and the descriptors of the first 120 GiB of groups: this many bytes make a
/// request a tenth slower, on a store as on a disk.
const HEAD_BYTES: u64 = 64 << 10;

/// Gap while the cost of a request is unknown: a disk's seek costs ten times as much, flash half of
/// it.
const GAP_UNKNOWN: u64 = 64 << 10;

/// Largest gap: bytes read along take memory from requested bytes.
const GAP_MAX: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_are_joined_whatever_their_order() {
        let ranges = vec![40..44, 0..4, 4..8, 12..16, 100..100, 13..14];
        assert_eq!(joined(ranges.clone(), 0), [0..8, 12..16, 40..44]);
        assert_eq!(joined(ranges.clone(), 4), [0..16, 40..44]);
        assert_eq!(joined(ranges, 24), vec![0..44]);
        assert_eq!(joined(vec![0..4, u64::MAX - 1..u64::MAX], 8).len(), 2);
    }
}
