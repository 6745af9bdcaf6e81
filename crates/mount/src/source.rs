//! The image, as the engine reads it.
//!
//! In:    offsets, from any thread.
//! Out:   bytes; what will be needed, asked for together.
//! Never: a window ahead of metadata, unless `will_need` was told which ranges.
//!
//! ```text
//!   inodes, directories, maps --> streams, one for each thread that reads  \
//!   contents without a layout --> the threads' own streams, windows ahead   > one file, one bound
//!   what is read ahead        --> will_need, near ranges joined            /
//! ```

use std::io;
use std::iter;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use foreread::{Advice, File, ReadStream};
use foreread_ext4::BlockSource;

/// An image or a device that the engine has open.
#[derive(Debug)]
pub(crate) struct ImageSource {
    pub(crate) file: File,
    /// The bytes of the file that are the image: all of them, or a partition.
    range: Range<u64>,
    /// Streams that no thread reads by now. There are never more than threads that read.
    idle: Mutex<Vec<ReadStream>>,
    /// What was asked for together, each time.
    #[cfg(test)]
    pub(crate) batches: Mutex<Vec<Vec<Range<u64>>>>,
}

impl ImageSource {
    /// A file as a whole.
    #[cfg(test)]
    pub(crate) fn new(file: File) -> Self {
        let range = 0..file.len();
        Self::part(file, range)
    }

    /// The bytes of a file in a range that is inside of it.
    pub(crate) fn part(file: File, range: Range<u64>) -> Self {
        assert!(range.start <= range.end, "a range");
        assert!(range.end <= file.len(), "inside of the file");
        // Superblock and descriptors in one round trip. A read of them says what is wrong.
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

    /// Fills `to` if all of it is there. Never waits for the device.
    pub(crate) fn try_read(&self, offset: u64, to: &mut [u8]) -> bool {
        self.with_stream(|stream| stream.try_read_at(to, self.place(offset)))
    }

    /// Returns the place in the file of a byte of the image.
    pub(crate) fn place(&self, offset: u64) -> u64 {
        self.range.start.saturating_add(offset)
    }

    /// Asks for what will be needed, in order of place.
    ///
    /// ```text
    ///   ranges   |--|     |--|  |-|                   |--|
    ///            |-- one request -|                   |--|      a gap that costs less than
    ///                                                           another request is read along
    /// ```
    ///
    /// `widen` makes of that gap the one that counts. Returns what was asked for. Errors are
    /// ignored here: a read of the bytes returns them again.
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

    /// How many bytes cost as much as another request beside others.
    fn gap_bytes(&self) -> u64 {
        let bytes = self.request_bytes().map(|(bytes, at_once)| bytes / at_once);
        bytes.unwrap_or(GAP_UNKNOWN).min(GAP_MAX)
    }

    /// How many bytes come in the time that a request takes before its first one; and how many
    /// requests are served at once. None while nothing is known of the device.
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
        // As a float it saturates.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
        let bytes = (kib * 1024.0) as u64;
        Some((bytes, u64::from(model.parallel.unwrap_or(1).max(1))))
    }

    fn with_stream<T>(&self, read: impl FnOnce(&ReadStream) -> T) -> T {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = idle().pop().unwrap_or_else(|| {
            let stream = self.file.stream();
            // Inodes and blocks of directories lie anywhere; what is ahead of one is another's.
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

/// Sorts ranges, and joins those with a gap of at most so many bytes between them.
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

/// The superblock, and the descriptors of the first 120 GiB of groups: with their bytes a request
/// takes a tenth longer than without, from a store as from a disk.
const HEAD_BYTES: u64 = 64 << 10;

/// The gap as long as the device has not told what its requests cost: a disk's head costs ten times
/// as much, and flash half of it.
const GAP_UNKNOWN: u64 = 64 << 10;

/// The largest gap: bytes read along take memory from bytes that were asked for.
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
