//! Look-ups of consecutive pages: one search of the index for up to [`RUN_MAX`] pages. A run never
//! crosses a leaf, and ends at the first page that is not up to date.

use super::{EntryPlace, FileSlot, FoundPage, LEAF_CELLS, LeafKey, PageEntry, PageTable};
use super::{Frame, index_in_leaf};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::units::PageIndex;

/// Largest number of pages in one look-up. All of them are copied before they are checked again, so
/// this also bounds a wasted copy: 64 KiB.
pub const RUN_MAX: usize = 16;

/// Consecutive pages that were up to date at the look-up.
#[derive(Clone, Copy, Debug)]
pub struct FoundRun<'t> {
    cells: &'t [AtomicU64],
    /// One for each cell; the rest are empty.
    entries: [PageEntry; RUN_MAX],
}

impl PageTable {
    /// Looks up as many as `count` pages from `first` on, from any thread.
    ///
    /// ```text
    ///   leaf    . . E E E E . E        requested: 6 from the third on
    ///               |-----| |
    ///                found   a gap: the run ends
    /// ```
    ///
    /// As with [`look_up`](Self::look_up), a missing page may be resident all the same.
    #[inline]
    #[must_use]
    pub fn look_up_run(&self, file: FileSlot, first: PageIndex, count: usize) -> FoundRun<'_> {
        let key = LeafKey::of(file, first);
        let mut run = FoundRun { cells: &[], entries: [PageEntry::EMPTY; RUN_MAX] };
        let Some(leaf) = self.find(key) else { return run };
        let index = index_in_leaf(first);
        let count = count.min(RUN_MAX).min(LEAF_CELLS - index as usize);
        let cells = self.cells_from(EntryPlace { leaf, index }, count);
        let mut len = 0;
        for cell in cells {
            let entry = PageEntry(cell.load(Ordering::Acquire));
            if !entry.is_present() || !entry.is_up_to_date() {
                break;
            }
            run.entries[len] = entry;
            len += 1;
        }
        // One check of the key after all entries, as in `look_up`: after an entry of other pages,
        // the old key cannot be loaded.
        if self.key(leaf) == Some(key) {
            run.cells = &cells[..len];
        }
        run
    }
}

impl<'t> FoundRun<'t> {
    /// Returns the number of pages found.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns true if no page was found.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns the page at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`len`](Self::len).
    #[inline]
    #[must_use]
    pub fn page(&self, index: usize) -> FoundPage<'t> {
        FoundPage { cell: &self.cells[index], entry: self.entries[index] }
    }

    /// Returns the frame of this page, and the number of pages from it on that are in consecutive
    /// frames.
    #[inline]
    #[must_use]
    pub fn frames_from(&self, index: usize) -> (Frame, usize) {
        let entries = &self.entries[index..self.len()];
        let first = entries[0].frame();
        let in_a_row = |(entry, frame): (&PageEntry, u32)| entry.frame() == Frame(frame);
        (first, entries.iter().zip(first.0..).take_while(|pair| in_a_row(*pair)).count())
    }

    /// Returns the number of pages from the first on that are still valid: the bytes copied from
    /// their frames since the look-up belong to them. [`FoundPage::still_holds`] has the argument;
    /// one fence after all copies serves all pages.
    #[inline]
    #[must_use]
    pub fn still_held(&self) -> usize {
        fence(Ordering::Acquire);
        let holds = |(cell, entry): &(&AtomicU64, &PageEntry)| {
            PageEntry(cell.load(Ordering::Relaxed)).names_same(**entry)
        };
        self.cells.iter().zip(&self.entries).take_while(holds).count()
    }
}
