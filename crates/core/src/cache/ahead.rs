//! Pages that were read ahead: they stay until they are used, and leave first when they have been.
//!
//! In:    how many frames the next window wants; which streams are alive.
//! Out:   frames, none of them from an unread page of a live stream; how many there are.
//! Never: work per use. Hits do not call the cache: a clock hand finds used pages later.
//!
//! Off unless asked for: then the ahead list is empty, and all is as if it were not there.
//! Model: tests/cache_model.rs. Design: docs/cache.md.

use super::FlagSeen;
use super::PageCache;
use crate::table::{EntryPlace, FileSlot, Frame};
use crate::units::{PageIndex, Pages};

impl PageCache {
    /// Whether a page that is read ahead has a list of its own until it is seen used, so that it is
    /// the last to leave. At first it has none.
    ///
    /// Pages that are there when it begins stay where they are. When it ends, those on that list
    /// become inactive or active as all others: no hand looks for used ones among them any more.
    pub fn set_keeps_unread(&mut self, keeps_unread: bool) {
        if self.keeps_unread && !keeps_unread {
            self.frames.end_ahead();
        }
        self.keeps_unread = keeps_unread;
    }

    /// Whether it does.
    #[must_use]
    pub fn keeps_unread(&self) -> bool {
        self.keeps_unread
    }

    /// How many frames read-ahead could have in the long run: all but those of active pages, and
    /// those that are held for something else (wanted, dirty, orphans).
    #[must_use]
    pub fn room_for_ahead(&self) -> Pages {
        self.frames.room_for_ahead()
    }

    /// Frees frames for pages to be read ahead, until `want` are free or nothing more may leave;
    /// says how many are free.
    ///
    /// ```text
    ///             tail                        ahead                         head
    ///              | -  -  u  u  -  -  -  x  x  -  u  u  r  -  -  -  -  -  - |<-- filled
    ///                    ---^ hand -->                    |
    ///                       |                             +-- used again: active
    ///                       +-- u used once: leaves; - unread, x unread by a stream that is gone
    ///
    ///   1. what is free   2. used once   3. unread, not live   4. the tail of the inactive list
    ///   never: unread and live; active, but for what is more than all the others
    /// ```
    ///
    /// Why not the oldest first: the oldest unread page may be the next that a slow reader wants,
    /// and it was read to be there. Pages of a stream are used in turn, so the hand finds those
    /// that were used side by side, and has a long way between. So looks are saved: each frame
    /// wanted is worth so many, and what one does not need another may have. While one page in so
    /// many has been used, the hand finds enough, and no call pays for all pages each time.
    ///
    /// `is_live` says whether a stream is still expected to read a page. It is called for unread
    /// pages only, and only after the hand has looked once at all that it may.
    ///
    /// Without a list of their own, pages are counted that are available, and none leaves.
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

    /// Takes the frame of the page that matters least, for a page that is wanted now.
    ///
    /// ```text
    ///   1. used once, if the hand finds one soon     3. active, the tail
    ///   2. the tail of the inactive list             4. unread, the oldest: a caller waits
    /// ```
    ///
    /// Why active before unread: an active page that leaves may be wanted again, an unread one will
    /// be, and it was already paid for.
    pub(super) fn evict(&mut self) -> Frame {
        assert!(self.idle() > self.frames.free(), "one is available, and it is not free");
        if let Some(frame) = self.evict_used() {
            return frame;
        }
        // More than once only if readers pin what is about to be met, each time.
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

    /// Looks at a few pages on the ahead list, for one that was used once.
    fn evict_used(&mut self) -> Option<Frame> {
        let looks = self.frames.ahead().min(LOOKS_FOR_ONE);
        (0..looks).find_map(|_| {
            let (frame, place) =
                self.frames.next_ahead().expect("the ahead list is as long as it says");
            if self.is_used(frame, place) { self.settle_used(frame, place) } else { None }
        })
    }

    /// Looks at pages on the ahead list, no page twice, until so many frames are free; says how
    /// many it looked at.
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

    /// Whether a page was read ahead and no reader has come to it; None if it is not resident.
    pub(crate) fn is_unread(&mut self, file: FileSlot, page: PageIndex) -> Option<bool> {
        let entry = self.look_up(file, page)?;
        Some(self.flag_log.saw(FlagSeen::Unused, entry.frame(), entry.is_unused()))
    }

    fn is_used(&mut self, frame: Frame, place: EntryPlace) -> bool {
        debug_assert!(self.frames.place(frame) == Some(place), "{frame:?} has its page there");
        let is_used = !self.table.entry_at(place).is_unused();
        self.flag_log.saw(FlagSeen::Used, frame, is_used)
    }

    /// Says where a page goes that was seen used; if it is evicted, that is its frame.
    ///
    /// ```text
    ///   u used   - unread     | evicted | stays: its reader  | inactive: there is no telling |
    ///     not resident        | u u     | is at it   u -     | u                             |
    ///                         | ^       |            ^       | ^                             |
    ///                         |         | going back - u     |                               |
    ///                         |         |              ^     |   (used again, or back early: |
    ///                         |         |                    |    active, whatever is beside)|
    /// ```
    ///
    /// Why look beside it: a reader of 1000 bytes at a time uses each page several times. Were that
    /// page evicted, the next read would miss, in each stream once a turn of the hand.
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

/// How many pages the hand may look at for each frame wanted, to find one that was used. The law of
/// windows leaves one frame in twenty free of unread pages, so this is enough on average.
const LOOKS_FOR_USED: u64 = 96;

/// How many looks can be saved: a way once round the pages of 64 MiB, about a tenth of a
/// millisecond.
const LOOKS_SAVED_MAX: u64 = 1 << 14;

/// The same, to find an unread one that no stream will read.
const LOOKS_FOR_DEAD: u64 = 4;

/// How many pages the hand looks at before a wanted page takes another's frame elsewhere.
const LOOKS_FOR_ONE: u32 = 8;
