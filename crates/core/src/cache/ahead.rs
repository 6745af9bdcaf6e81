//! Reclaims frames for read-ahead: unread pages of live streams stay, pages that were used once are
//! evicted first.
//!
//! Hits do no work for this: a clock hand finds used pages later. While the ahead list is switched
//! off it is empty, and the cache behaves as if it did not exist. Model: tests/cache_model.rs.
//! Design: docs/design/cache.md.

use super::FlagSeen;
use super::PageCache;
use crate::table::{EntryPlace, FileSlot, Frame};
use crate::units::{PageIndex, Pages};

impl PageCache {
    /// Switches the ahead list on or off. While it is on, a page that is read ahead stays on a list
    /// of its own, evicted last, until the clock hand sees that it was used. It is off at first.
    ///
    /// Switching it on does not move resident pages. Switching it off moves the listed pages to the
    /// inactive or active list, like all others.
    pub fn set_keeps_unread(&mut self, keeps_unread: bool) {
        if self.keeps_unread && !keeps_unread {
            self.frames.end_ahead();
        }
        self.keeps_unread = keeps_unread;
    }

    /// Returns true if the ahead list is on.
    #[must_use]
    pub fn keeps_unread(&self) -> bool {
        self.keeps_unread
    }

    /// Returns the number of frames that read-ahead could occupy in the long run: all except those
    /// of active pages and those held for another reason (demand reads, dirty pages, orphans).
    #[must_use]
    pub fn room_for_ahead(&self) -> Pages {
        self.frames.room_for_ahead()
    }

    /// Frees frames for pages to be read ahead, until `want` are free or nothing more may be
    /// evicted. Returns the number of free frames.
    ///
    /// ```text
    ///             tail                        ahead                         head
    ///              | -  -  u  u  -  -  -  x  x  -  u  u  r  -  -  -  -  -  - |<-- filled
    ///                    ---^ hand -->                    |
    ///                       |                             +-- used again: active
    ///                       +-- u used once: leaves; - unread, x unread by a stream that is gone
    ///
    ///   1. free frames   2. used once   3. unread, not live   4. the tail of the inactive list
    ///   never: unread and live; active, except the excess over all other lists
    /// ```
    ///
    /// Evicting the oldest first would be wrong: the oldest unread page may be the next one that a
    /// slow reader needs. A stream uses its pages in order, so used pages are adjacent on the list,
    /// and long unread stretches separate them. The hand therefore saves looks: each wanted frame
    /// adds `LOOKS_FOR_USED` of them, and a call that needs fewer leaves the rest to later calls.
    /// If at least one page in `LOOKS_FOR_USED` has been used, the hand finds enough, and no call
    /// scans the whole list each time.
    ///
    /// `is_live` returns true if a stream is still expected to read a page. It is called for unread
    /// pages only, and only after the hand has used up its looks for used ones.
    ///
    /// While the ahead list is off, this evicts nothing and returns the number of available frames.
    pub fn reclaim(
        &mut self,
        want: Pages,
        is_live: impl FnMut(FileSlot, PageIndex) -> bool,
    ) -> Pages {
        if !self.keeps_unread {
            return self.available();
        }
        let lacks = want.0.saturating_sub(self.frames.free().0);
        let looks = self.looks_saved.saturating_add(lacks.saturating_mul(LOOKS_FOR_USED));
        let looked = self.sweep(want, looks, |_, _| true);
        debug_assert!(looked <= looks, "the hand looks at no more pages than it may");
        self.looks_saved = (looks - looked).min(LOOKS_SAVED_MAX);
        let lacks = want.0.saturating_sub(self.frames.free().0);
        self.sweep(want, lacks.saturating_mul(LOOKS_FOR_DEAD), is_live);
        while self.frames.free() < want {
            let steps_max = self.frames.in_two_lists();
            let Some(frame) = self.evict_inactive(steps_max) else { break };
            self.frames.put_free(frame);
        }
        self.frames.free()
    }

    /// Evicts the least valuable page and returns its frame, for a page that is needed now.
    ///
    /// ```text
    ///   1. used once, if the hand finds one soon     3. active, the tail
    ///   2. the tail of the inactive list             4. unread, the oldest: a caller waits
    /// ```
    ///
    /// Active pages go before unread ones because an active page may be used again, whereas an
    /// unread page will be, and its read has already been paid for.
    pub(super) fn evict(&mut self) -> Frame {
        assert!(self.idle() > self.frames.free(), "one is available, and it is not free");
        if let Some(frame) = self.evict_used() {
            return frame;
        }
        // This loops more than once only if readers keep pinning the page that comes up next.
        loop {
            let two_lists = self.frames.in_two_lists();
            let steps_max = if self.frames.ahead() == 0 { u32::MAX } else { two_lists };
            if let Some(frame) = self.evict_inactive(steps_max) {
                return frame;
            }
            for _ in 0..two_lists {
                self.stats.demotions += u64::from(self.frames.demote());
                if let Some(frame) = self.evict_inactive(two_lists) {
                    return frame;
                }
            }
            for _ in 0..self.frames.ahead() {
                let (frame, place) =
                    self.frames.oldest_ahead().expect("the ahead list is as long as it says");
                if self.close(frame) {
                    return self.evict_closed(frame, place);
                }
                self.promote(frame);
            }
        }
    }

    /// Evicts a page that was used once, if one of the next few pages on the ahead list is such a
    /// page.
    fn evict_used(&mut self) -> Option<Frame> {
        let looks = self.frames.ahead().min(LOOKS_FOR_ONE);
        (0..looks).find_map(|_| {
            let (frame, place) =
                self.frames.next_ahead().expect("the ahead list is as long as it says");
            if self.is_used(frame, place) { self.settle_used(frame, place) } else { None }
        })
    }

    /// Moves the hand over the ahead list, at most once around, until `want` frames are free.
    /// Returns the number of pages it looked at.
    fn sweep(
        &mut self,
        want: Pages,
        looks: u64,
        mut is_live: impl FnMut(FileSlot, PageIndex) -> bool,
    ) -> u64 {
        debug_assert!(self.keeps_unread, "only unread pages that are kept are looked at");
        let looks = looks.min(self.frames.ahead().into());
        for looked in 0..looks {
            if self.frames.free() >= want {
                return looked;
            }
            let (frame, place) =
                self.frames.next_ahead().expect("each look takes one page off the list at most");
            let evicted = if self.is_used(frame, place) {
                self.settle_used(frame, place)
            } else {
                let (file, page) = self.table.page_at(place);
                if is_live(file, page) { None } else { self.evict_unless_pinned(frame, place) }
            };
            if let Some(frame) = evicted {
                self.frames.put_free(frame);
            }
        }
        looks
    }

    /// Returns true if a page was read ahead and not used yet; None if it is not resident.
    pub(crate) fn is_unread(&mut self, file: FileSlot, page: PageIndex) -> Option<bool> {
        let entry = self.look_up(file, page)?;
        Some(self.flag_log.saw(FlagSeen::Unused, entry.frame(), entry.is_unused()))
    }

    fn is_used(&mut self, frame: Frame, place: EntryPlace) -> bool {
        debug_assert!(self.frames.place(frame) == Some(place), "{frame:?} has its page there");
        let is_used = !self.table.entry_at(place).is_unused();
        self.flag_log.saw(FlagSeen::Used, frame, is_used)
    }

    /// Decides where a page goes that was seen used. Returns its frame if it was evicted.
    ///
    /// ```text
    ///   u used   - unread     | evicted | stays: its reader  | inactive: undecidable         |
    ///     not resident        | u u     | is at it   u -     | u                             |
    ///                         | ^       |            ^       | ^                             |
    ///                         |         | going back - u     |                               |
    ///                         |         |              ^     |   (used again, or back early: |
    ///                         |         |                    |    active in any case)        |
    /// ```
    ///
    /// The neighbours matter because a reader of 1000 bytes at a time uses each page several times.
    /// If the page it is reading were evicted, its next read would miss, in each stream once per
    /// turn of the hand.
    fn settle_used(&mut self, frame: Frame, place: EntryPlace) -> Option<Frame> {
        debug_assert!(self.frames.is_ahead(frame), "{frame:?} is on the ahead list");
        if self.take_referenced(frame, place) || self.frames.is_active(frame) {
            self.promote(frame);
            return None;
        }
        let [before, after] = self.table.beside(place);
        let mut is_unread = |beside: Option<EntryPlace>| {
            beside.is_some_and(|place| {
                let frame = self.table.entry_at(place).frame();
                !self.is_used(frame, place)
            })
        };
        if is_unread(after) || is_unread(before) {
            return None;
        }
        if after.is_none() {
            self.frames.retire(frame);
            return None;
        }
        self.evict_unless_pinned(frame, place)
    }

    fn evict_unless_pinned(&mut self, frame: Frame, place: EntryPlace) -> Option<Frame> {
        if self.close(frame) {
            return Some(self.evict_closed(frame, place));
        }
        self.promote(frame);
        None
    }
}

/// Pages the hand may look at for each wanted frame, to find a used one. The memory shares leave
/// one frame in twenty free of unread pages, so this is enough on average.
const LOOKS_FOR_USED: u64 = 96;

/// Largest number of saved looks: one turn over the pages of 64 MiB, about 0.1 ms.
const LOOKS_SAVED_MAX: u64 = 1 << 14;

/// Pages the hand may look at for each wanted frame, to find an unread one that no stream will
/// read.
const LOOKS_FOR_DEAD: u64 = 4;

/// Pages the hand looks at on a demand read before it falls back to the other lists.
const LOOKS_FOR_ONE: u32 = 8;
