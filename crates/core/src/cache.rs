//! The page cache: owns the frames and chooses which page to evict when another needs its frame.
//!
//! In:    pages to fill, ends of fills, holds of readers, uses, files that close.
//! Out:   frames; to readers, the [`PageTable`]; to read-ahead, which pages are resident.
//! Never: a page's bytes, an I/O, a wait. A frame that is being filled or held is never evicted.
//!
//! One memory bound covers the frames and all metadata kept for them. Model: tests/cache_model.rs.
//! Design, table of cases and sources: docs/design/cache.md.

mod ahead;
mod counters;
mod eviction;
mod fills;
mod flag_log;
mod frame_home;
mod frames;
mod invariants;
mod unstable;
mod writes;

use alloc::sync::Arc;

pub use self::counters::{CacheDump, CacheStats};
pub use self::fills::{Filling, Use};
pub use self::flag_log::FlagSeen;
pub(crate) use self::flag_log::{CacheEvent, FlagLog};
use self::frames::Frames;
pub(crate) use self::unstable::FlushInterval;
use self::unstable::Unstable;
pub use self::writes::Fresh;
use crate::shadow::Shadows;
use crate::table::{FRAMES_MAX, FileSlot, Frame, PageEntry, PageTable, PinBudget, TableWriter};
use crate::units::{ByteCount, PAGE_SIZE, PageIndex, Pages};

/// All pages of all files, within one memory bound.
///
/// ```text
///              start_fill                filled              referenced or pinned at the tail,
///   free  ------------------> in flight --------> inactive    or early refault
///    ^                            |    \          head..tail ----------------------> active
///    |                            |     \            |  ^                           head..tail
///    |          fill_failed,      |      \           |  |    more active than inactive   |
///    |<--- forget: orphan until --+       \          |  +--------------------------------+
///    |      holds and pins end             \         v
///    |                                      \     evicted: leaves a shadow, its frame is
///    +---------- forget ----------------------+   filled again at once
/// ```
///
/// A frame is on a list unless it is being filled or held, so every listed frame may be evicted at
/// once unless a reader has pinned it. The lists do not track pins; eviction checks for them. When
/// its last hold ends, a frame returns to the head of its list.
#[derive(Debug)]
pub struct PageCache {
    table: TableWriter,
    frames: Frames,
    shadows: Shadows,
    stats: CacheStats,
    unstable: Unstable,
    /// True while read-ahead pages are kept on a list of their own.
    keeps_unread: bool,
    /// Looks of the clock hand that earlier reclaims did not need.
    looks_saved: u64,
    /// Flags of readers that the cache has observed, for a log.
    flag_log: FlagLog,
}

/// Residency of one file's pages, for read-ahead.
#[derive(Clone, Copy, Debug)]
pub struct FileResidency<'c> {
    table: &'c TableWriter,
    file: FileSlot,
}

impl PageCache {
    /// The smallest bound: two windows of 128 KiB for each of three or four streams.
    pub const MIN_BOUND: ByteCount = ByteCount(1 << 20);

    /// The largest bound: a page table entry can number no more frames.
    pub const MAX_BOUND: ByteCount = ByteCount(FRAMES_MAX as u64 * PAGE_SIZE);

    /// Creates a cache whose total memory stays within `bound`, except for 4 bytes for each file
    /// slot that was ever closed.
    ///
    /// The caller provides the memory of the frames: [`frames`](Self::frames) pages.
    ///
    /// # Panics
    ///
    /// If `bound` is below [`Self::MIN_BOUND`] or above [`Self::MAX_BOUND`].
    #[must_use]
    pub fn new(bound: ByteCount) -> Self {
        Self::sharing(bound, 0)
    }

    /// Creates a cache that leaves `more` bytes per frame of its bound to the owner.
    #[must_use]
    pub(crate) fn sharing(bound: ByteCount, more: u64) -> Self {
        assert!(bound >= Self::MIN_BOUND, "a bound of {bound} bytes is too small for a cache");
        assert!(bound <= Self::MAX_BOUND, "a bound of {bound} bytes has too many frames");
        let frames = bound.0 / (PAGE_SIZE + Self::metadata_bytes_per_frame() + more);
        Self::with_frames(u32::try_from(frames).expect("a bound is at most MAX_BOUND"))
    }

    /// Creates a cache of `frames` frames, for tests and small models.
    ///
    /// # Panics
    ///
    /// If `frames` is 0, or more than a page table entry can number.
    #[must_use]
    pub fn with_frames(frames: u32) -> Self {
        assert!(frames > 0, "a cache has at least one frame");
        assert!(frames <= FRAMES_MAX, "{frames} frames do not fit the page table");
        Self {
            table: TableWriter::new(frames),
            frames: Frames::new(frames),
            shadows: Shadows::new(frames),
            stats: CacheStats::default(),
            unstable: Unstable::default(),
            keeps_unread: false,
            looks_saved: 0,
            flag_log: FlagLog::default(),
        }
    }

    /// Returns the metadata bytes for each frame, in the worst case of one page in each leaf.
    #[must_use]
    pub const fn metadata_bytes_per_frame() -> u64 {
        TableWriter::BYTES_PER_FRAME + Frames::BYTES_PER_FRAME + Shadows::BYTES_PER_FRAME
    }

    /// Returns the number of frames; they are numbered from 0.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.frames.len()
    }

    /// Returns the number of frames that were ever used. Frames are first used in the order of
    /// their numbers, and only when no used frame is free.
    #[must_use]
    pub fn frames_used(&self) -> u32 {
        self.frames.used()
    }

    /// Returns the page table, for readers on any thread.
    #[must_use]
    pub fn table(&self) -> Arc<PageTable> {
        Arc::clone(self.table.table())
    }

    /// Returns a view of the file's resident pages. A page in flight is resident; a shadow is not.
    #[must_use]
    pub fn residency(&self, file: FileSlot) -> FileResidency<'_> {
        FileResidency { table: &self.table, file }
    }

    /// Returns the entry of a page if it is resident. A concurrent change cannot make this look-up
    /// miss, as it can a reader's.
    #[must_use]
    pub fn look_up(&self, file: FileSlot, page: PageIndex) -> Option<PageEntry> {
        self.table.table().look_up(file, page).map(|found| found.entry())
    }

    /// Returns the page in a frame, if that page is in the table.
    #[must_use]
    pub fn page_of(&self, frame: Frame) -> Option<(FileSlot, PageIndex)> {
        self.frames.place(frame).map(|place| self.table.page_at(place))
    }

    /// Returns the number of frames that can be taken right now, one after the other.
    ///
    /// ```text
    ///   frames   | filled or held | orphans | listed          P . P . . | free |
    ///                                         |<- a quarter ->|<-- available ->|
    /// ```
    ///
    /// These are the free and listed frames minus a quarter of all frames, the most that readers
    /// may pin. Subtracting the pins that the [`PinBudget`] has granted so far would not be safe:
    /// the path first counts the frames for a read and then takes them. If readers pinned some of
    /// them in between, the read would get stuck with half of its frames. With the fixed quarter,
    ///
    /// - while a frame is available, something can be evicted: if nothing is free, more than a
    ///   quarter is listed, and at most a quarter is pinned;
    /// - a read that waits for frames gets them. When all other reads have ended, the frames that
    ///   are neither listed nor free are held by this read (with the ones it lacks, at most an
    ///   eighth), pinned orphans (at most a quarter), or dirty (at most a quarter, permanently if
    ///   the device refuses them). So at least the frames that it lacks are available;
    /// - readers cannot change the result: the same calls have the same outcome regardless of other
    ///   threads.
    ///
    /// The cost: at most three quarters of the frames are filled or held at a time. All of them can
    /// cache pages.
    #[must_use]
    pub fn available(&self) -> Pages {
        Pages(self.frames.idle().0.saturating_sub(PinBudget::of(self.frames())))
    }

    /// Returns the number of frames that are neither being filled nor held, and no orphans.
    #[must_use]
    pub fn idle(&self) -> Pages {
        self.frames.idle()
    }

    /// Returns the number of frames without a page.
    pub(crate) fn free(&self) -> Pages {
        self.frames.free()
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.stats
    }

    /// Returns the list that each frame is on.
    #[must_use]
    pub fn dump(&self) -> CacheDump {
        self.frames.dump()
    }

    /// Adds a hold, which keeps the frame from being evicted until it is released.
    ///
    /// # Panics
    ///
    /// If no page in the table is in the frame.
    pub fn hold(&mut self, frame: Frame) {
        self.frames.hold(frame);
    }

    /// Ends one hold.
    ///
    /// # Panics
    ///
    /// If the frame is not held.
    pub fn release(&mut self, frame: Frame) {
        if self.frames.release(frame) {
            self.table.table().reopen(frame);
        }
    }

    /// Ends the pins of an orphan; the caller learns from [`PageTable::unpin`] that it ended the
    /// last one. The frame becomes free, unless it is still being filled or held.
    ///
    /// # Panics
    ///
    /// If the frame is not an orphan.
    pub fn unpinned(&mut self, frame: Frame) {
        let is_orphan = self.is_held(frame) && self.frames.place(frame).is_none();
        assert!(is_orphan, "{frame:?} is not an orphan");
        self.flag_log.unpinned(frame);
        self.release(frame);
    }

    /// In a replay, returns true if the log still owes a call of [`unpinned`](Self::unpinned) for
    /// this frame.
    pub(crate) fn is_pinned_orphan(&self, frame: Frame) -> bool {
        self.flag_log.ends_orphan(frame)
    }

    /// Returns the log of reader flags and evictions.
    #[inline]
    pub(crate) fn flag_log(&mut self) -> &mut FlagLog {
        &mut self.flag_log
    }

    /// Records a flag of a frame's page as it was seen; in a replay, returns the recorded value
    /// instead.
    #[inline]
    pub(crate) fn saw(&mut self, what: FlagSeen, frame: Frame, is_so: bool) -> bool {
        self.flag_log.saw(what, frame, is_so)
    }

    /// Returns true if the frame has a hold. A fill counts as one; pins count only on an orphan.
    #[must_use]
    pub fn is_held(&self, frame: Frame) -> bool {
        self.frames.is_held(frame)
    }

    /// Marks a page as used, as [`FoundPage::touch`](crate::table::FoundPage::touch) does. Does
    /// nothing if the page has been evicted in the meantime.
    pub fn touch(&mut self, file: FileSlot, page: PageIndex, continues: bool) {
        if let Some(found) = self.table.table().look_up(file, page) {
            found.touch(continues);
        }
    }

    /// Clears the marker of a page; returns true if there was one.
    pub fn take_marker(&mut self, file: FileSlot, page: PageIndex) -> bool {
        let Some(found) = self.table.table().look_up(file, page) else { return false };
        self.flag_log.saw(FlagSeen::Marker, found.entry().frame(), found.take_marker())
    }

    /// Removes all pages of a file from the table, after which its slot may name another file.
    /// Frames that are being filled, held or pinned become orphans and are freed when that ends.
    ///
    /// Takes as many steps as a file of `pages` pages may have leaves, or as there are leaves if
    /// that is fewer.
    pub fn forget_file(&mut self, file: FileSlot, pages: Pages) {
        self.forget_range(file, PageIndex(0), pages);
        self.shadows.forget_file(file);
        self.forget_unstable_left(file);
    }

    /// Removes a range of a file's pages from the table, at the same cost. Their shadows stay.
    pub fn forget_range(&mut self, file: FileSlot, start: PageIndex, pages: Pages) {
        self.forget_range_but(file, start, pages, true, |_| false);
    }
}

/// Handles a page that left the table other than by eviction: its frame becomes an orphan, or free.
fn disown(frames: &mut Frames, table: &PageTable, log: &mut FlagLog, frame: Frame) {
    let is_pinned = log.saw(FlagSeen::Orphaned, frame, table.orphan(frame));
    if frames.disown(frame, is_pinned) {
        table.reopen(frame);
    }
}

impl FileResidency<'_> {
    /// Returns the number of resident pages without a gap just before `page`, at most `limit`.
    #[must_use]
    pub fn history(&self, page: PageIndex, limit: Pages) -> Pages {
        self.table.history(self.file, page, limit)
    }

    /// Returns the first page in `[page, page + limit)` that is not resident, or None.
    #[must_use]
    pub fn next_hole(&self, page: PageIndex, limit: Pages) -> Option<PageIndex> {
        self.table.next_hole(self.file, page, limit)
    }
}
