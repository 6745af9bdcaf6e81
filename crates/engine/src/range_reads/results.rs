//! Results of a range read as they arrive: each range ends once, with its bytes or an error.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{ReadError, ReadErrorKind};
use crate::handle::Handle;
use crate::reader::observe;
use crate::stream::ReadStream;

/// The outcome of a range.
pub(super) type RangeResult = Result<Box<[u8]>, ReadError>;

/// The results of all ranges of one call, by the number of the range.
#[derive(Debug)]
pub(super) struct RangeResults {
    ranges: Vec<RangeBytes>,
    /// Complete ranges that have not been taken.
    complete: VecDeque<u32>,
    /// Number of ranges that have not been taken.
    left: usize,
}

#[derive(Debug)]
struct RangeBytes {
    /// The range, cut at the end of the file.
    range: Range<u64>,
    /// Empty until the first byte arrives, then as long as the range.
    bytes: Vec<u8>,
    /// Number of bytes still missing.
    missing: u64,
    /// End of the file, if it was found to be before the end of the range.
    end: u64,
    /// At least one byte was not cached.
    is_miss: bool,
    error: Option<ReadError>,
    /// The range is complete, or was taken.
    is_over: bool,
}

impl RangeResults {
    /// Creates the results, and fails invalid ranges.
    pub(super) fn new(handle: &Handle, ranges: &[Range<u64>]) -> Self {
        assert!(u32::try_from(ranges.len()).is_ok(), "a slice of 2^32 ranges is 64 GiB");
        let mut results = Self {
            ranges: Vec::with_capacity(ranges.len()),
            complete: VecDeque::new(),
            left: ranges.len(),
        };
        for (number, range) in (0..).zip(ranges) {
            let cut = cut_at_end(handle, range);
            let (range, error) = cut.map_or_else(|error| (0..0, Some(error)), |cut| (cut, None));
            let (missing, end) = (range.end - range.start, range.end);
            let (bytes, is_miss, is_over) = (Vec::new(), false, false);
            results.ranges.push(RangeBytes { range, bytes, missing, end, is_miss, error, is_over });
            if missing == 0 {
                results.complete(number);
            }
        }
        results
    }

    /// Returns the number of ranges.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Opens a stream to read parts of the ranges. The observer sees each range as one read, not
    /// its parts.
    pub(super) fn stream_of_parts(&self, handle: &Arc<Handle>) -> ReadStream {
        let mut stream = ReadStream::new(Arc::clone(handle));
        if std::mem::replace(&mut stream.reader.is_observed, false) {
            for RangeBytes { range, .. } in &self.ranges {
                observe(handle, range.start, range.end - range.start);
            }
        }
        stream
    }

    /// Returns the byte range in the file.
    pub(super) fn range(&self, number: u32) -> Range<u64> {
        self.ranges[number as usize].range.clone()
    }

    /// Returns true if the range needs no more reads.
    pub(super) fn is_over(&self, number: u32) -> bool {
        self.ranges[number as usize].is_over
    }

    /// Returns the buffer of a part of a range. None if the range has failed, or fails now because
    /// it cannot be allocated.
    pub(super) fn buffer(
        &mut self,
        handle: &Handle,
        number: u32,
        part: &Range<u64>,
    ) -> Option<&mut [u8]> {
        let RangeBytes { range, bytes, is_over, .. } = &mut self.ranges[number as usize];
        debug_assert!(range.start <= part.start && part.end <= range.end, "{part:?} of {range:?}");
        if *is_over {
            return None;
        }
        let len = range.end - range.start;
        if bytes.is_empty() {
            let fits = usize::try_from(len).is_ok_and(|len| bytes.try_reserve_exact(len).is_ok());
            if !fits {
                let why = format!("no memory for {len} bytes: read less at once");
                let source = io::Error::new(io::ErrorKind::OutOfMemory, why);
                let (path, offset) = (handle.path.clone(), range.start);
                self.fail(number, ReadErrorKind::Io { offset, source }.of(path));
                return None;
            }
            bytes.resize(in_memory(len), 0);
        }
        let start = range.start;
        self.ranges[number as usize]
            .bytes
            .get_mut(in_memory(part.start - start)..in_memory(part.end - start))
    }

    /// Counts `bytes` more bytes of a range as copied.
    pub(super) fn came(&mut self, number: u32, bytes: u64) {
        let range = &mut self.ranges[number as usize];
        range.missing = range.missing.checked_sub(bytes).expect("each byte comes once");
        if range.missing == 0 {
            self.complete(number);
        }
    }

    /// Marks a range as a cache miss.
    pub(super) fn is_miss(&mut self, number: u32) {
        self.ranges[number as usize].is_miss = true;
    }

    /// Records that the file ends at `end`, so that these bytes of a range are missing.
    pub(super) fn ended_at(&mut self, handle: &Handle, number: u32, end: u64, bytes: u64) {
        let range = &mut self.ranges[number as usize];
        if end < range.range.start {
            let (path, offset) = (handle.path.clone(), range.range.start);
            return self.fail(number, ReadErrorKind::PastEnd { offset, len: end }.of(path));
        }
        range.end = range.end.min(end);
        self.came(number, bytes);
    }

    /// Fails a range.
    pub(super) fn fail(&mut self, number: u32, error: ReadError) {
        let range = &mut self.ranges[number as usize];
        range.error = range.error.take().or(Some(error));
        self.complete(number);
    }

    /// Fails all incomplete ranges, each with a separate error.
    pub(super) fn fail_all(&mut self, mut error: impl FnMut(u64) -> ReadError) {
        for number in 0..self.ranges.len() {
            let RangeBytes { range, is_over, .. } = &self.ranges[number];
            if !is_over {
                let error = error(range.start);
                self.fail(u32::try_from(number).expect("there are fewer than 2^32"), error);
            }
        }
    }

    fn complete(&mut self, number: u32) {
        let range = &mut self.ranges[number as usize];
        if !std::mem::replace(&mut range.is_over, true) {
            self.complete.push_back(number);
        }
    }

    pub(super) fn has_complete(&self) -> bool {
        !self.complete.is_empty()
    }

    /// Returns true if all ranges were taken.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Takes the next complete range, and whether all of it was cached. `len` is the current length
    /// of the file.
    pub(super) fn pop(&mut self, len: u64) -> Option<(usize, RangeResult, bool)> {
        let number = self.complete.pop_front()? as usize;
        self.left -= 1;
        let RangeBytes { range, bytes, end, is_miss, error, .. } = &mut self.ranges[number];
        let is_hit = !*is_miss && error.is_none();
        let mut bytes = std::mem::take(bytes);
        let result = match error.take() {
            Some(error) => Err(error),
            None => {
                // The file may have shrunk while its bytes were copied.
                let end = (*end).min(len).max(range.start);
                bytes.truncate(in_memory(end - range.start));
                Ok(bytes.into_boxed_slice())
            }
        };
        Some((number, result, is_hit))
    }
}

/// Cuts a range at the end of the file, as [`File::read_at`](crate::File::read_at) does.
fn cut_at_end(handle: &Handle, range: &Range<u64>) -> Result<Range<u64>, ReadError> {
    let Range { start, end } = *range;
    if start > end {
        return Err(ReadErrorKind::Range { start, end }.of(handle.path.clone()));
    }
    let mut len = handle.file.len().0;
    if end > len {
        len = handle.len_now(start)?;
        handle.check_not_past_end(start)?;
    }
    Ok(start..end.min(len))
}

/// Converts an offset in a buffer to `usize`.
fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a buffer that was allocated has so many bytes")
}
