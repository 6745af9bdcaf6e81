//! Zeroing and discarding of ranges. Concurrent writes to the same pages wait.

use std::ops::Range;

use foreread_core::path::{FileId, IoPath, WriteId, WriteMode};
use foreread_core::units::{Nanos, PAGE_SIZE, PageIndex};

use super::pieces::Pieces;
use super::steps::StepWork;
use crate::error::WriteError;
use crate::file::File;
use crate::handle::Handle;
use crate::pool::PAGE;

impl File {
    /// Zeroes these bytes. If `may_unmap`, the file system may free their blocks, so that a later
    /// write may run out of space. Follow with [`Self::sync_data`], as after a write with
    /// [`WriteMode::WriteBack`].
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.create("/var/lib/db/table")?;
    /// file.write_zeroes(0..1 << 20, true)?; // as a hole, where the file system has holes
    /// file.sync_data()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Self::write_all_at`]. If it fails, each byte is zero or has any of its earlier values.
    #[expect(
        clippy::missing_panics_doc,
        reason = "what lies beside whole pages is shorter than a page"
    )]
    pub fn write_zeroes(&self, range: Range<u64>, may_unmap: bool) -> Result<(), WriteError> {
        let handle = self.handle();
        let len = range.end.saturating_sub(range.start);
        handle.check_writable(range.start, len)?;
        if len == 0 {
            return Ok(());
        }
        let [before, pages, behind] = around_whole_pages(&range);
        for part in [before, behind] {
            if may_unmap && self.is_zero_in_a_hole(&part) {
                continue;
            }
            let zeros = &[0; PAGE][..usize::try_from(part.end - part.start)
                .expect("what lies beside whole pages is shorter than a page")];
            handle.write_pieces(zeros, part.start, WriteMode::WriteBack, Pieces::Any).1?;
        }
        let backend = &handle.file.backend;
        handle.act_on("zeroing", &pages, IoPath::write_zeroes, &|from, len| {
            backend.zero(from, len, may_unmap)
        })
    }

    /// Returns true if these bytes of one page are in a hole of the file and read as zeros, so that
    /// writing zeros would only fill the hole. A concurrent write by another thread counts as later
    /// than the zeroing.
    fn is_zero_in_a_hole(&self, part: &Range<u64>) -> bool {
        let (start, end) = (part.start, part.end);
        let extents = self.handle().file.backend.extents(start, end, 1);
        if !extents.is_ok_and(|extents| extents == [(start..end, false)]) {
            return false;
        }
        // Recent writes to the hole may still be in memory only.
        let mut now = vec![0; usize::try_from(end - start).expect("a part of a page")];
        self.read_exact_at(&mut now, start).is_ok() && now.iter().all(|byte| *byte == 0)
    }

    /// Discards these bytes: their contents are undefined afterwards. Only whole pages are freed,
    /// and only if the file system or the device supports it.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.create("/var/lib/db/table")?;
    /// file.discard(1 << 20..2 << 20)?; // what is there afterwards is undefined
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the file was opened for reading, or ends before the range does, or the device fails.
    pub fn discard(&self, range: Range<u64>) -> Result<(), WriteError> {
        let handle = self.handle();
        let len = range.end.saturating_sub(range.start);
        handle.check_writable(range.start, len)?;
        let [_, pages, _] = around_whole_pages(&range);
        let backend = &handle.file.backend;
        handle.act_on("discard", &pages, IoPath::discard, &|from, len| backend.discard(from, len))
    }
}

impl Handle {
    /// Runs `act` on whole pages, which it holds exclusively.
    fn act_on(
        &self,
        what: &'static str,
        pages: &Range<u64>,
        begin: fn(&mut IoPath, Nanos, FileId, Range<PageIndex>) -> WriteId,
        act: &dyn Fn(u64, u64) -> Result<(), i32>,
    ) -> Result<(), WriteError> {
        if pages.is_empty() {
            return Ok(());
        }
        let indices = PageIndex(pages.start / PAGE_SIZE)..PageIndex(pages.end / PAGE_SIZE);
        let begin = |path: &mut IoPath, now| begin(path, now, self.file.id, indices);
        self.run_to_end(what, pages.start, begin, &StepWork::ActOn(act)).map(drop)
    }
}

/// Splits a range into the part before its first whole page, its whole pages, and the part after
/// them.
///
/// ```text
///   |      .===|=========|=========|====.    |
///          before        pages      behind
/// ```
fn around_whole_pages(range: &Range<u64>) -> [Range<u64>; 3] {
    let Range { start, end } = *range;
    let first = start.next_multiple_of(PAGE_SIZE).min(end);
    let last = (end - end % PAGE_SIZE).max(first);
    [start..first, first..last, last..end]
}
