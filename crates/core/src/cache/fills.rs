//! Fills: a page that is not resident gets a frame, which a device fills or fails to fill.
//!
//! In:    a page to fill; the end of its fill.
//! Out:   a frame; to readers, its entry, up to date or gone.
//! Never: a choice which page leaves: that is eviction's.

use super::{PageCache, disown};
use crate::table::{FileSlot, Frame, Generation, PageEntry};
use crate::units::{PageIndex, Pages};

/// Why a page is filled.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Use {
    /// A caller waits for it: that is its first use.
    Wanted,
    /// Read ahead: a stream reads what comes before it.
    Ahead,
    /// Not asked for yet, but a hint said that it would be needed.
    Hinted,
}

/// A fill that has started: a frame into which a page is being read.
///
/// It is given back exactly once, to [`PageCache::filled`] or [`PageCache::fill_failed`].
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a frame whose fill never ends is lost"]
pub struct Filling {
    frame: Frame,
    generation: Generation,
}

impl PageCache {
    /// Takes a frame for a page that is not resident: a free one, or that of the page that matters
    /// least. From here on the page is in the table, but not up to date.
    ///
    /// The caller makes sure that one is available, and holds what it still needs: this may evict
    /// anything that is on a list.
    ///
    /// # Panics
    ///
    /// If no frame is [available](Self::available), or the page is resident.
    pub fn start_fill(
        &mut self,
        file: FileSlot,
        page: PageIndex,
        use_: Use,
        marker: bool,
    ) -> Filling {
        assert!(self.available() > Pages::ZERO, "no frame for {page:?} of {file:?}");
        // Before anything is evicted for it: that would change the distance, and its shadow may be
        // the one that is overwritten.
        let active = self.comes_back_early(file, page);
        let frame = match self.frames.take_free() {
            Some(frame) => frame,
            None => self.evict(),
        };

        let generation = self.table.table().generation(frame);
        let unused = match use_ {
            Use::Wanted => false,
            Use::Ahead | Use::Hinted => true,
        };
        let ahead = self.keeps_unread && use_ == Use::Ahead;
        let entry = PageEntry::new(frame, generation, unused, marker);
        let place = self.table.insert(file, page, entry);
        self.frames.start(frame, place, active, ahead);
        debug_assert!(self.page_of(frame) == Some((file, page)), "{frame:?} has its page");
        Filling { frame, generation }
    }

    /// Takes a frame for bytes that a device reads on its way to others: no page gets it, and it is
    /// free again when its fill ends, well or not.
    ///
    /// # Panics
    ///
    /// If no frame is [available](Self::available).
    pub fn start_discard(&mut self) -> Filling {
        let frame = self.start_write().into_frame();
        let is_pinned = self.table.table().orphan(frame);
        assert!(!is_pinned, "no reader knows {frame:?}");
        Filling { frame, generation: self.table.table().generation(frame) }
    }

    /// Ends a fill that went well. When the frame's last hold ends, it goes to the head of its
    /// list; if its page has left the table in the meantime, it becomes free instead.
    ///
    /// # Panics
    ///
    /// If the frame has held another page since the fill started.
    #[expect(clippy::needless_pass_by_value, reason = "a fill ends once: it is used up")]
    pub fn filled(&mut self, filling: Filling) {
        let Filling { frame, generation } = filling;
        self.assert_is_filled_for(frame, generation);
        if let Some(place) = self.frames.place(frame) {
            self.table.set_up_to_date(place, frame, generation);
        }
        self.release(frame);
    }

    /// Ends a fill that failed. The page leaves the table, so that the next reader misses again.
    ///
    /// # Panics
    ///
    /// If the frame has held another page since the fill started, or was filled.
    #[expect(clippy::needless_pass_by_value, reason = "a fill ends once: it is used up")]
    pub fn fill_failed(&mut self, filling: Filling) {
        let Filling { frame, generation } = filling;
        self.assert_is_filled_for(frame, generation);
        if let Some(place) = self.frames.place(frame) {
            let last = self.table.remove(place);
            assert!(!last.is_up_to_date(), "{frame:?} was filled before it failed");
            disown(&mut self.frames, self.table.table(), &mut self.flag_log, frame);
        }
        self.release(frame);
    }

    fn assert_is_filled_for(&self, frame: Frame, generation: Generation) {
        let now = self.table.table().generation(frame);
        assert!(now == generation, "{frame:?} was filled for a page ago");
        assert!(self.is_held(frame), "a fill holds {frame:?} until it ends");
    }
}

impl Filling {
    /// The frame to read into.
    #[must_use]
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// Which of the frame's pages this is.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The same fill for one more part of its page, of those that come on their own, or for a
    /// request that goes on when the page has arrived: only one of them is given back, the last
    /// part.
    pub(crate) fn part(&self) -> Self {
        Self { frame: self.frame, generation: self.generation }
    }
}
