//! Writes fill a fresh frame, and the page's entry is swapped to it. A reader never sees bytes
//! change: the old frame is not reused before all its fills, holds, pins and device writes have
//! ended.
//!
//! ```text
//!            start_write              put_written                 release: it is on the device
//!   free  ----------------> fresh  -----------------> held (dirty) ----------------> listed
//!    ^                        |            |
//!    |<----- drop_fresh ------+            '--> the page's old frame: orphan, then free
//! ```

use alloc::sync::Arc;

use super::{PageCache, disown};
use crate::table::{FileSlot, Frame, PageEntry};
use crate::units::{PageIndex, Pages};

/// A frame for a page's new bytes. It is held and not in the table, so no reader sees it.
///
/// It must be passed exactly once to [`PageCache::put_written`] or [`PageCache::drop_fresh`].
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a fresh frame that is neither put nor dropped is lost"]
pub struct Fresh {
    frame: Frame,
}

impl PageCache {
    /// Takes a frame for bytes about to be written, evicting the least valuable page if none is
    /// free.
    ///
    /// The caller checks that a frame is available, as for [`start_fill`](Self::start_fill).
    ///
    /// # Panics
    ///
    /// If no frame is [available](Self::available).
    pub fn start_write(&mut self) -> Fresh {
        assert!(self.available() > Pages::ZERO, "no frame for a write");
        let frame = match self.frames.take_free() {
            Some(frame) => frame,
            None => self.evict(),
        };
        self.frames.start_fresh(frame);
        debug_assert!(self.page_of(frame).is_none(), "no reader finds {frame:?} before it is put");
        Fresh { frame }
    }

    /// Publishes the bytes in the fresh frame: from now on readers find the page there. The frame
    /// stays held until [`release`](Self::release).
    ///
    /// ```text
    ///   entry     old frame, marker, referenced   --one swap-->   fresh frame, marker, referenced
    ///   old frame     orphan while it is filled, held or pinned; else free at once
    /// ```
    ///
    /// The write counts as the page's first use, so the page is not `unused`. A page that was not
    /// resident is added as if it had been read.
    ///
    /// # Panics
    ///
    /// If the frame is not held.
    #[expect(clippy::needless_pass_by_value, reason = "a fresh frame is put once: it is used up")]
    pub fn put_written(&mut self, file: FileSlot, page: PageIndex, fresh: Fresh) {
        let Fresh { frame } = fresh;
        assert!(self.is_held(frame), "{frame:?} is held from its start to its release");
        let entry = PageEntry::written(frame, self.table.table().generation(frame));
        match self.table.place_of(file, page) {
            Some(place) => {
                let old = self.table.swap(place, entry).frame();
                let active = self.frames.is_active(old);
                let shared = Arc::clone(self.table.table());
                disown(&mut self.frames, &shared, &mut self.flag_log, old);
                self.frames.settle(frame, place, active);
            }
            None => {
                let active = self.comes_back_early(file, page);
                let place = self.table.insert(file, page, entry);
                self.frames.settle(frame, place, active);
            }
        }
    }

    /// Frees the frame of a write that was abandoned.
    ///
    /// # Panics
    ///
    /// If the frame has other holds.
    #[expect(clippy::needless_pass_by_value, reason = "a fresh frame is dropped once")]
    pub fn drop_fresh(&mut self, fresh: Fresh) {
        // Nothing ever referred to this use of the frame, so its generation and pin word are clean.
        let is_free = self.frames.release(fresh.frame);
        assert!(is_free, "{:?} is held by others", fresh.frame);
    }

    /// Removes a range of a file's pages from the table, except those whose frame `keep` accepts.
    /// If `notes_unstable`, unstable pages among them are recorded as no longer in memory.
    pub(crate) fn forget_range_but(
        &mut self,
        file: FileSlot,
        start: PageIndex,
        pages: Pages,
        notes_unstable: bool,
        keep: impl Fn(Frame) -> bool,
    ) {
        let Self { table, frames, flag_log, unstable, .. } = self;
        let shared = Arc::clone(table.table());
        let goes = |entry: PageEntry| !keep(entry.frame());
        table.remove_range(file, start, start + pages, goes, |last| {
            if notes_unstable {
                Self::note_forgotten(unstable, frames, file, last.frame());
            }
            disown(frames, &shared, flag_log, last.frame());
        });
    }
}

impl Fresh {
    /// Returns the frame to write into.
    #[must_use]
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// Returns the frame, to be filled for no page.
    pub(super) fn into_frame(self) -> Frame {
        self.frame
    }
}
