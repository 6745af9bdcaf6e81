//! Eviction: chooses the page to evict, and detects refaults that deserve the active list. Held,
//! filling and pinned frames are never evicted.

use super::{FlagSeen, PageCache};
use crate::table::{EntryPlace, FileSlot, Frame};
use crate::units::PageIndex;

impl PageCache {
    /// Returns true if a page that is filled now was evicted so recently that it would still be
    /// resident had it been active.
    ///
    /// ```text
    ///   |<---- active ---->|<------- inactive ------->|
    ///   |a a a a a a a a a |i i i i i i i i i i i i i |  E . . . . R
    ///                                                    |<------->| distance
    /// ```
    ///
    /// A page that comes back within that distance is used at least as often as the active pages
    /// that would have lost their frame to it. The active ones were used often at some time, but
    /// perhaps not since. The refaulted page competes with them: active pages without further use
    /// are demoted one by one.
    pub(super) fn comes_back_early(&mut self, file: FileSlot, page: PageIndex) -> bool {
        let Some(distance) = self.shadows.take(file, page) else { return false };
        self.stats.refaults += 1;
        if distance > u64::from(self.frames.active()) {
            return false;
        }
        self.stats.refaults_activated += 1;
        self.count_activation();
        true
    }

    /// Evicts the least valuable inactive page and returns its frame.
    ///
    /// ```text
    ///           active                         inactive
    ///   head [ . . . . . . ] tail ----> head [ . . . . . . r . r ] tail
    ///     ^                   only if active                 |   |
    ///     |                   is the longer                  |   +-- referenced or pinned: once
    ///     +--------------------------------------------------|-- more around, as active
    ///                                                        +-- not: evicted
    /// ```
    ///
    /// A page that is read once passes through the inactive list only, so a scan of a large file
    /// does not evict the working set. The active list is never the longer one, so that a page has
    /// time to be used a second time before it reaches the tail.
    ///
    /// A pinned page moves to the active list rather than to the head of its own: if all inactive
    /// pages are pinned, the evictable page is on the active list. Each page is visited once before
    /// any is visited twice, and at least one is not pinned. The number of steps is therefore at
    /// most the number of pins, those added by readers during the search, `PROMOTIONS_MAX`, and
    /// one.
    ///
    /// Returns None if nothing is inactive, or after `steps_max` steps. If the ahead list is empty
    /// and a frame is available, it terminates without that bound.
    pub(super) fn evict_inactive(&mut self, steps_max: u32) -> Option<Frame> {
        debug_assert!(steps_max < u32::MAX || self.frames.ahead() == 0, "a search has a bound");
        let mut promotions = 0;
        for _ in 0..steps_max {
            self.stats.demotions += u64::from(self.frames.balance());
            let (frame, place) = self.frames.tail()?;
            let is_referenced = promotions < PROMOTIONS_MAX && self.take_referenced(frame, place);
            promotions += u32::from(is_referenced);
            if !is_referenced && self.close(frame) {
                return Some(self.evict_closed(frame, place));
            }
            self.promote(frame);
        }
        None
    }

    /// Removes a page whose frame was closed, and records its shadow.
    ///
    /// A page on the ahead list is evicted early: on the inactive list it would have survived as
    /// many more evictions as that list is long, and its shadow accounts for them. A page of that
    /// list which was never used leaves no shadow: its first use will not be a second one.
    pub(super) fn evict_closed(&mut self, frame: Frame, place: EntryPlace) -> Frame {
        assert!(!self.is_held(frame), "{frame:?} is held, and is not evicted");
        self.note_leaving(frame, place);
        let (file, page) = self.table.page_at(place);
        let last = self.table.remove(place);
        self.stats.evictions += 1;
        let is_unused = self.flag_log.saw(FlagSeen::Unused, frame, last.is_unused());
        match (self.frames.is_ahead(frame), is_unused) {
            (true, true) => self.shadows.count_eviction(),
            (true, false) => self.shadows.leave(file, page, self.frames.inactive().into()),
            (false, _) => self.shadows.leave(file, page, 0),
        }
        self.stats.evicted_before_use += u64::from(is_unused);
        self.flag_log.evicted(file, page, frame);
        assert!(last.frame() == frame, "{last:?} is not the page of {frame:?}");
        self.frames.take(frame);
        frame
    }

    pub(super) fn take_referenced(&mut self, frame: Frame, place: EntryPlace) -> bool {
        debug_assert!(self.frames.place(frame) == Some(place), "{frame:?} has its page there");
        let is_referenced = self.table.take_referenced(place);
        self.flag_log.saw(FlagSeen::Referenced, frame, is_referenced)
    }

    /// Moves a listed page to the active list. A page that refaulted early was counted at its
    /// refault.
    pub(super) fn promote(&mut self, frame: Frame) {
        if self.frames.promote(frame) {
            self.count_activation();
        }
    }

    /// Closes the frame to readers, unless one has it pinned. Returns true if it is closed.
    pub(super) fn close(&mut self, frame: Frame) -> bool {
        debug_assert!(!self.is_held(frame), "{frame:?} is held, and is not evicted");
        let is_pinned = self.flag_log.foretells_pin(frame) || !self.table.table().close(frame);
        !self.flag_log.saw(FlagSeen::Pinned, frame, is_pinned)
    }

    pub(super) fn count_activation(&mut self) {
        self.shadows.count_activation();
        self.stats.activations += 1;
    }
}

/// Referenced pages that get another round in one search; the next page is evicted even if it is
/// referenced.
///
/// When all pages are referenced, the flag carries no information, and the search for one that is
/// not would scan every frame with the engine's mutex held. 32 steps take about a microsecond, a
/// tenth of the fastest read that they make room for.
const PROMOTIONS_MAX: u32 = 32;
