//! Fills: a page that is not resident gets a frame, which a device fills or fails to fill.

use super::{PageCache, disown};
use crate::table::{FileSlot, Frame, Generation, PageEntry};
use crate::units::{PageIndex, Pages};

/// Why a page is filled.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Use {
    /// A caller waits for it, which is its first use.
    Wanted,
    /// Read ahead: a stream is reading the pages before it.
    Ahead,
    /// Prefetched because of a hint.
    Hinted,
}

/// A fill in progress: a frame into which a page is being read.
///
/// It must be passed exactly once to [`PageCache::filled`] or [`PageCache::fill_failed`].
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a frame whose fill never ends is lost"]
pub struct Filling {
    frame: Frame,
    generation: Generation,
}

impl PageCache {
    /// Takes a frame for a page that is not resident, evicting the least valuable page if none is
    /// free. From then on the page is in the table, but not up to date.
    ///
    /// The caller checks that a frame is available and holds all frames that it still needs,
    /// because this may evict any listed one.
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
        // Read the shadow before evicting: an eviction changes the distance and may overwrite the
        // shadow.
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

    /// Takes a frame for bytes that a device reads only because they are between two wanted ranges.
    /// No page gets the frame, and it is freed when the fill ends, successful or not.
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

    /// Ends a successful fill. When the frame's last hold ends, it moves to the head of its list,
    /// or becomes free if its page has left the table in the meantime.
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

    /// Ends a failed fill. The page leaves the table, so that the next reader misses again.
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
    /// Returns the frame to read into.
    #[must_use]
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// Returns the generation of the frame for which it is filled.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns a copy of this fill for another part of its page, or for a request that continues
    /// after the page has arrived. Only the last copy is passed back to the cache.
    pub(crate) fn part(&self) -> Self {
        Self { frame: self.frame, generation: self.generation }
    }
}
