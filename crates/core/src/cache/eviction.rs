//! Eviction: which page leaves when another needs its frame, and which comes back as active.
//!
//! In:    the lists of frames; the flags that readers set; shadows.
//! Out:   a frame.
//! Never: a frame that is held, filled or pinned.

use super::{FlagSeen, PageCache};
use crate::table::{EntryPlace, FileSlot, Frame};
use crate::units::PageIndex;

impl PageCache {
    /// Whether a page that is filled now has been away for so short a time that it would still be
    /// here had it been active.
    ///
    /// ```text
    ///   |<---- active ---->|<------- inactive ------->|
    ///   |a a a a a a a a a |i i i i i i i i i i i i i |  E . . . . R
    ///                                                    |<------->| distance
    /// ```
    ///
    /// Why compare with the active list: a page that comes back within that distance is used at
    /// least as often as the active pages that its frame would have come from, and those were only
    /// used often once. It competes with them; if it wins nothing, they are demoted one by one.
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

    /// Takes the frame of the inactive page that matters least.
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
    /// Why two lists: a page that is read once passes through the inactive list only, so a scan of
    /// a large file cannot push out what is used again and again. Why active is never the longer
    /// one: a page must have time to be used a second time before it reaches the tail.
    ///
    /// A pinned page goes around as active, and not back to the head of its own list: if all that
    /// is inactive is pinned, the page that can leave is on the other list. Each page is met once
    /// before any is met twice, and one is not pinned. So this takes no more steps than there are
    /// pins, and those that readers add meanwhile, and `PROMOTIONS_MAX`, and one.
    ///
    /// None if nothing is inactive, or after so many steps. With an ahead list that is empty, and a
    /// frame available, it ends without a bound.
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

    /// Ends the life of a page whose frame was closed.
    ///
    /// One from the ahead list leaves before its turn: had it gone through the inactive list, it
    /// would be here for as many more evictions as that is long. That is what its shadow says. One
    /// that was kept and never used leaves none: its first use will not be a second one.
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

    /// Moves a listed page to the active list. One that came back early was counted when it did.
    pub(super) fn promote(&mut self, frame: Frame) {
        if self.frames.promote(frame) {
            self.count_activation();
        }
    }

    /// Takes the frame away from readers, unless one has it pinned.
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

/// After so many pages got another round, the next one leaves even if it was referenced.
///
/// When all of them are referenced, the flag has nothing to say, and looking for one that is not
/// would cost as many steps as there are frames, with the engine's mutex held. 32 steps are about
/// a microsecond, a tenth of the fastest read that they make room for.
const PROMOTIONS_MAX: u32 = 32;
