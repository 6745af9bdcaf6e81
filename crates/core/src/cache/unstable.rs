//! Unstable pages: written to their device, but not yet covered by a successful device flush. After
//! a failed flush, `writeback/durability.rs` reads here which of them are still in memory and which
//! files have lost some.
//!
//! ```text
//!   interval     0         |      1          |   2
//!   written      a   b     |  c    (b again) |  d
//!   flush                  F0                F1
//!                covers a, b                 covers a, b, c and the second b
//! ```
//!
//! The name is NFS's, where a client keeps unstable writes until a COMMIT. Here an unstable page
//! may be evicted like any other clean page; the cache then keeps only one number for each file.
//!
//! A page's mark is its interval modulo 2^27 - 1, plus one, in spare bits of a word that each frame
//! needs anyway. After 2^27 - 1 further flushes the mark of a stable page looks recent again; a
//! failed flush then rewrites that page once more, which is harmless.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::PageCache;
use super::frame_home::MARK_BITS;
use crate::table::{EntryPlace, FileSlot, Frame};
use crate::units::PageIndex;

/// Interval between the starts of two device flushes, of any file; numbered from 1.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct FlushInterval(pub(crate) u64);

/// Counts intervals and remembers which files have lost unstable pages from memory.
#[derive(Debug)]
pub(super) struct Unstable {
    now: FlushInterval,
    /// For each file, the newest interval of an unstable page that is no longer in memory.
    left: BTreeMap<u32, FlushInterval>,
}

/// An unstable page in memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct UnstablePage {
    pub(crate) file: FileSlot,
    pub(crate) page: PageIndex,
    pub(crate) frame: Frame,
    /// The interval in which its device write ended.
    pub(crate) written: FlushInterval,
}

impl Default for Unstable {
    fn default() -> Self {
        Self { now: FlushInterval(1), left: BTreeMap::new() }
    }
}

impl Unstable {
    fn mark(&self) -> u32 {
        u32::try_from(self.now.0 % MARKS).expect("a mark is below 2^27") + 1
    }

    /// Returns the newest interval with this mark.
    fn interval(&self, mark: u32) -> FlushInterval {
        debug_assert!(mark > 0 && u64::from(mark) <= MARKS, "{mark} is no mark");
        let age = (self.now.0 % MARKS + MARKS + 1 - u64::from(mark)) % MARKS;
        FlushInterval(self.now.0.saturating_sub(age))
    }

    fn note_left(&mut self, file: FileSlot, interval: FlushInterval) {
        assert!(interval <= self.now, "{interval:?} has not begun");
        let left = self.left.entry(file.0).or_insert(interval);
        *left = interval.max(*left);
    }
}

impl PageCache {
    /// Starts a device flush: returns the current interval, which the flush covers with all earlier
    /// ones.
    pub(crate) fn end_flush_interval(&mut self) -> FlushInterval {
        let ended = self.unstable.now;
        self.unstable.now = FlushInterval(ended.0 + 1);
        ended
    }

    /// Marks a page as written to the device, perhaps only to its volatile cache.
    pub(crate) fn set_unstable(&mut self, frame: Frame) {
        assert!(self.is_held(frame), "{frame:?} is held until its device write is handled");
        if self.frames.place(frame).is_some() {
            self.frames.set_mark(frame, self.unstable.mark());
        }
    }

    /// Clears the mark of a page that is dirty again, or durable.
    pub(crate) fn clear_unstable(&mut self, frame: Frame) {
        if self.frames.place(frame).is_some() {
            self.frames.set_mark(frame, 0);
        }
    }

    /// Notes that bytes of the file were written to the device without being in any frame.
    pub(crate) fn note_unstable_beside_cache(&mut self, file: FileSlot) {
        self.unstable.note_left(file, self.unstable.now);
    }

    /// Notes that an unstable page will not be rewritten.
    pub(crate) fn note_unstable_left(&mut self, file: FileSlot, written: FlushInterval) {
        self.unstable.note_left(file, written);
    }

    /// Returns the newest interval in which an unstable page of the file was written that is no
    /// longer in memory.
    pub(crate) fn unstable_left(&self, file: FileSlot) -> Option<FlushInterval> {
        self.unstable.left.get(&file.0).copied()
    }

    /// Drops the record of a file that is closed.
    pub(crate) fn forget_unstable_left(&mut self, file: FileSlot) {
        self.unstable.left.remove(&file.0);
    }

    /// Returns all marked pages, in the order of their frames. Scans every frame, which is
    /// acceptable because it runs only after a failed flush.
    pub(crate) fn unstable_pages(&self) -> Vec<UnstablePage> {
        let marked = self.frames.marked();
        marked
            .map(|(frame, mark, place)| {
                let (file, page) = self.table.page_at(place);
                UnstablePage { file, page, frame, written: self.unstable.interval(mark) }
            })
            .collect()
    }

    /// Notes that a page leaves the table without being replaced by newer bytes.
    pub(super) fn note_leaving(&mut self, frame: Frame, place: EntryPlace) {
        let mark = self.frames.mark(frame);
        if mark != 0 {
            let (file, _) = self.table.page_at(place);
            self.unstable.note_left(file, self.unstable.interval(mark));
        }
    }

    /// Notes the same for a page of a file that is being forgotten.
    pub(super) fn note_forgotten(
        unstable: &mut Unstable,
        frames: &super::frames::Frames,
        file: FileSlot,
        frame: Frame,
    ) {
        let mark = frames.mark(frame);
        if mark != 0 {
            unstable.note_left(file, unstable.interval(mark));
        }
    }
}

/// Number of different marks; 0 is none.
const MARKS: u64 = (1 << MARK_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Pages;

    const FILE: FileSlot = FileSlot(7);

    fn write(cache: &mut PageCache, page: u64) -> Frame {
        let fresh = cache.start_write();
        let frame = fresh.frame();
        cache.put_written(FILE, PageIndex(page), fresh);
        cache.set_unstable(frame);
        cache.release(frame);
        frame
    }

    #[test]
    fn an_unstable_page_says_in_which_interval_it_was_written() {
        let mut cache = PageCache::with_frames(16);
        let first = write(&mut cache, 1);
        assert_eq!(cache.end_flush_interval(), FlushInterval(1));
        let second = write(&mut cache, 2);
        let found: Vec<_> =
            cache.unstable_pages().iter().map(|it| (it.frame, it.page, it.written.0)).collect();
        assert_eq!(found, [(first, PageIndex(1), 1), (second, PageIndex(2), 2)]);
        cache.clear_unstable(first);
        assert_eq!(cache.unstable_pages().len(), 1);
        assert_eq!(cache.unstable_left(FILE), None);
    }

    #[test]
    fn a_page_that_leaves_is_remembered_by_its_file_and_one_that_is_overwritten_is_not() {
        let mut cache = PageCache::with_frames(16);
        write(&mut cache, 1);
        let fresh = cache.start_write();
        let frame = fresh.frame();
        cache.put_written(FILE, PageIndex(1), fresh);
        assert_eq!(cache.unstable_left(FILE), None, "newer bytes took its place");
        cache.release(frame);
        write(&mut cache, 2);
        cache.end_flush_interval();
        cache.forget_range(FILE, PageIndex(2), Pages(1));
        assert_eq!(cache.unstable_left(FILE), Some(FlushInterval(1)));
        cache.forget_unstable_left(FILE);
        for page in 10..40 {
            write(&mut cache, page);
        }
        assert_eq!(cache.unstable_left(FILE), Some(FlushInterval(2)), "some were evicted");
    }

    #[test]
    fn intervals_are_told_apart_for_as_many_flushes_as_there_are_marks() {
        let at = |interval| Unstable { now: FlushInterval(interval), left: BTreeMap::new() };
        for last in [1, 2, MARKS - 1, MARKS, MARKS + 1, 3 * MARKS + 5] {
            for age in [0, 1, 2, 1000, MARKS - 1] {
                if age < last {
                    let (then, unstable) = (at(last - age), at(last));
                    assert_eq!(unstable.interval(then.mark()), FlushInterval(last - age));
                }
            }
        }
    }
}
