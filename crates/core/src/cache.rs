//! The page cache: which page leaves when another needs its frame, and what becomes of frames.
//!
//! In:    pages to fill, ends of fills, holds of readers, uses, files that close.
//! Out:   frames; to readers, the [`PageTable`]; to read-ahead, which pages are resident.
//! Never: a page's bytes, an I/O, a wait. A frame that is being filled or held is never evicted.
//!
//! One bound covers everything: frames and all that is kept for them. Model: tests/cache_model.rs.
//! Design, table of cases and sources: docs/cache.md.

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

/// All pages of all files, in one bound of memory.
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
/// A frame is on a list unless it is being filled or held, so everything on a list may be evicted
/// at once, unless a reader has it pinned: of that the lists know nothing until eviction meets it.
/// A held frame goes back to the head of the list that it belongs to.
#[derive(Debug)]
pub struct PageCache {
    table: TableWriter,
    frames: Frames,
    shadows: Shadows,
    stats: CacheStats,
    unstable: Unstable,
    /// Whether pages that are read ahead have a list of their own.
    keeps_unread: bool,
    /// How many of them the hand may look at, beside those for the frames that are wanted next.
    looks_saved: u64,
    /// What it saw of its readers, for a log.
    flag_log: FlagLog,
}

/// Which pages of one file are resident, for read-ahead.
#[derive(Clone, Copy, Debug)]
pub struct FileResidency<'c> {
    table: &'c TableWriter,
    file: FileSlot,
}

impl PageCache {
    /// The smallest bound: two windows of 128 KiB for each of three or four streams.
    pub const MIN_BOUND: ByteCount = ByteCount(1 << 20);

    /// The largest bound: an entry of the page table has room for so many frames.
    pub const MAX_BOUND: ByteCount = ByteCount(FRAMES_MAX as u64 * PAGE_SIZE);

    /// A cache that takes no more memory than `bound`, all told (but for 4 bytes for each file slot
    /// that was ever closed).
    ///
    /// The memory of the frames themselves is the caller's: [`frames`](Self::frames) pages of it.
    ///
    /// # Panics
    ///
    /// If `bound` is below [`Self::MIN_BOUND`] or above [`Self::MAX_BOUND`].
    #[must_use]
    pub fn new(bound: ByteCount) -> Self {
        Self::sharing(bound, 0)
    }

    /// The same, where its owner keeps so many `more` bytes for each frame within the bound.
    #[must_use]
    pub(crate) fn sharing(bound: ByteCount, more: u64) -> Self {
        assert!(bound >= Self::MIN_BOUND, "a bound of {bound} bytes is too small for a cache");
        assert!(bound <= Self::MAX_BOUND, "a bound of {bound} bytes has too many frames");
        let frames = bound.0 / (PAGE_SIZE + Self::metadata_bytes_per_frame() + more);
        Self::with_frames(u32::try_from(frames).expect("a bound is at most MAX_BOUND"))
    }

    /// A cache of so many frames, for tests and small models.
    ///
    /// # Panics
    ///
    /// If there are none, or more than an entry of the page table can name.
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

    /// What the cache keeps for each frame, in the worst case of one page a leaf.
    #[must_use]
    pub const fn metadata_bytes_per_frame() -> u64 {
        TableWriter::BYTES_PER_FRAME + Frames::BYTES_PER_FRAME + Shadows::BYTES_PER_FRAME
    }

    /// How many frames there are, numbered from 0.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.frames.len()
    }

    /// How many frames were ever used: frames are used in the order of their numbers, and none for
    /// the first time while one that was used is free.
    #[must_use]
    pub fn frames_used(&self) -> u32 {
        self.frames.used()
    }

    /// The table, for readers on any thread.
    #[must_use]
    pub fn table(&self) -> Arc<PageTable> {
        Arc::clone(self.table.table())
    }

    /// Which pages of the file are resident. A page in flight is; a shadow is not.
    #[must_use]
    pub fn residency(&self, file: FileSlot) -> FileResidency<'_> {
        FileResidency { table: &self.table, file }
    }

    /// The entry of a page, if it is resident. Unlike a reader's look-up this one misses nothing.
    #[must_use]
    pub fn look_up(&self, file: FileSlot, page: PageIndex) -> Option<PageEntry> {
        self.table.table().look_up(file, page).map(|found| found.entry())
    }

    /// The page that a frame holds, if that page is in the table.
    #[must_use]
    pub fn page_of(&self, frame: Frame) -> Option<(FileSlot, PageIndex)> {
        self.frames.place(frame).map(|place| self.table.page_at(place))
    }

    /// How many frames can be had right now, one after the other.
    ///
    /// ```text
    ///   frames   | filled or held | orphans | listed          P . P . . | free |
    ///                                         |<- a quarter ->|<-- available ->|
    /// ```
    ///
    /// Those are the free and the listed ones without a quarter of all frames: so many may be
    /// pinned. Why a quarter, and not what the [`PinBudget`] has granted at the moment? The path
    /// counts the frames for a read first and takes them then. If readers could pin some of them in
    /// between, the read would stop half-way with frames in its hands. As it is,
    ///
    /// - while one is available, something can be evicted: nothing is free, so more than a quarter
    ///   is listed, and no more than a quarter is pinned;
    /// - a read that waits for frames gets them: when all others have ended, what is neither listed
    ///   nor free is what it holds itself (with what it lacks, an eighth at most), a pinned orphan
    ///   (a quarter at most), or dirty (a quarter at most, permanently if its device refuses it).
    ///   So what it lacks is available to it at least;
    /// - the sum depends on nothing that a reader can change: the same calls have the same outcome
    ///   whatever other threads do.
    ///
    /// The price: at most three quarters of the frames are filled or held at a time. All of them
    /// keep pages.
    #[must_use]
    pub fn available(&self) -> Pages {
        Pages(self.frames.idle().0.saturating_sub(PinBudget::of(self.frames())))
    }

    /// How many frames are neither filled nor held, nor orphans.
    #[must_use]
    pub fn idle(&self) -> Pages {
        self.frames.idle()
    }

    /// How many frames have no page.
    pub(crate) fn free(&self) -> Pages {
        self.frames.free()
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.stats
    }

    /// Where each frame is.
    #[must_use]
    pub fn dump(&self) -> CacheDump {
        self.frames.dump()
    }

    /// Keeps a frame from being evicted, as many times as it is held.
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

    /// Ends the pins of an orphan, as the last of its unpinners says
    /// ([`PageTable::unpin`]): the frame is free, unless it is still filled or held.
    ///
    /// # Panics
    ///
    /// If the frame is no orphan.
    pub fn unpinned(&mut self, frame: Frame) {
        let is_orphan = self.is_held(frame) && self.frames.place(frame).is_none();
        assert!(is_orphan, "{frame:?} is not an orphan");
        self.flag_log.unpinned(frame);
        self.release(frame);
    }

    /// In a replay, whether [`unpinned`](Self::unpinned) has to come for this frame.
    pub(crate) fn is_pinned_orphan(&self, frame: Frame) -> bool {
        self.flag_log.ends_orphan(frame)
    }

    /// What the cache sees of its readers.
    #[inline]
    pub(crate) fn flag_log(&mut self) -> &mut FlagLog {
        &mut self.flag_log
    }

    /// Records the result of a look at a flag of a frame's page; in a replay, returns the recorded
    /// one.
    #[inline]
    pub(crate) fn saw(&mut self, what: FlagSeen, frame: Frame, is_so: bool) -> bool {
        self.flag_log.saw(what, frame, is_so)
    }

    /// Whether the frame has a hold. A fill counts as one; a pin counts only on an orphan.
    #[must_use]
    pub fn is_held(&self, frame: Frame) -> bool {
        self.frames.is_held(frame)
    }

    /// Notes a use of a page, as [`FoundPage::touch`](crate::table::FoundPage::touch) does. A page
    /// that has left since its user met it is not touched.
    pub fn touch(&mut self, file: FileSlot, page: PageIndex, continues: bool) {
        if let Some(found) = self.table.table().look_up(file, page) {
            found.touch(continues);
        }
    }

    /// Takes the marker off a page; true if there was one.
    pub fn take_marker(&mut self, file: FileSlot, page: PageIndex) -> bool {
        let Some(found) = self.table.table().look_up(file, page) else { return false };
        self.flag_log.saw(FlagSeen::Marker, found.entry().frame(), found.take_marker())
    }

    /// Forgets a file of so many pages: its pages leave the table, and its slot may name another
    /// file. Frames that are filled, held or pinned are orphans, and free when that ends.
    ///
    /// Costs as many steps as the file may have leaves, or as there are leaves: the fewer.
    pub fn forget_file(&mut self, file: FileSlot, pages: Pages) {
        self.forget_range(file, PageIndex(0), pages);
        self.shadows.forget_file(file);
        self.forget_unstable_left(file);
    }

    /// Forgets some pages of a file, at the same cost. Their shadows stay.
    pub fn forget_range(&mut self, file: FileSlot, start: PageIndex, pages: Pages) {
        self.forget_range_but(file, start, pages, true, |_| false);
    }
}

/// The frame's page has left the table, otherwise than by eviction.
fn disown(frames: &mut Frames, table: &PageTable, log: &mut FlagLog, frame: Frame) {
    let is_pinned = log.saw(FlagSeen::Orphaned, frame, table.orphan(frame));
    if frames.disown(frame, is_pinned) {
        table.reopen(frame);
    }
}

impl FileResidency<'_> {
    /// How many pages just before `page` are resident without a gap, counted to at most `limit`.
    #[must_use]
    pub fn history(&self, page: PageIndex, limit: Pages) -> Pages {
        self.table.history(self.file, page, limit)
    }

    /// The first page in `[page, page + limit)` that is not resident; None if all of them are.
    #[must_use]
    pub fn next_hole(&self, page: PageIndex, limit: Pages) -> Option<PageIndex> {
        self.table.next_hole(self.file, page, limit)
    }
}
