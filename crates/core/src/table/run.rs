//! Look-ups of pages in a row: one search of the index for up to [`RUN_MAX`] pages.
//!
//! In:    a file, a page, how many from there on.
//! Out:   as many of them as are up to date, without a gap; later, how many of those still hold.
//! Never: pages of two leaves. A page that fails ends the run: what comes after it is asked again.

use super::{EntryPlace, FileSlot, FoundPage, LEAF_CELLS, LeafKey, PageEntry, PageTable};
use super::{Frame, index_in_leaf};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::units::PageIndex;

/// How many pages one look-up finds at most. All of them are copied before they are looked at
/// again, so this also bounds what is copied in vain: 64 KiB.
pub const RUN_MAX: usize = 16;

/// Pages in a row that were up to date when the reader looked.
#[derive(Clone, Copy, Debug)]
pub struct FoundRun<'t> {
    cells: &'t [AtomicU64],
    /// As many as there are cells; the others are empty.
    entries: [PageEntry; RUN_MAX],
}

impl PageTable {
    /// Finds up to `count` pages from `first` on; any thread may ask at any time.
    ///
    /// ```text
    ///   leaf    . . E E E E . E        asked: 6 from the third on
    ///               |-----| |
    ///                found   a gap: the run ends
    /// ```
    ///
    /// As with [`look_up`](Self::look_up), a page that is not found may be there all the same.
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
        // One look at the key after all entries, as in `look_up`: after an entry of other pages the
        // old key cannot be loaded.
        if self.key(leaf) == Some(key) {
            run.cells = &cells[..len];
        }
        run
    }
}

impl<'t> FoundRun<'t> {
    /// How many pages were found.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether none was found.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// One of the pages, counted from the first.
    ///
    /// # Panics
    ///
    /// If fewer were found.
    #[inline]
    #[must_use]
    pub fn page(&self, index: usize) -> FoundPage<'t> {
        FoundPage { cell: &self.cells[index], entry: self.entries[index] }
    }

    /// The frame of this page, and how many pages from it on lie in frames in a row.
    #[inline]
    #[must_use]
    pub fn frames_from(&self, index: usize) -> (Frame, usize) {
        let entries = &self.entries[index..self.len()];
        let first = entries[0].frame();
        let in_a_row = |(entry, frame): (&PageEntry, u32)| entry.frame() == Frame(frame);
        (first, entries.iter().zip(first.0..).take_while(|pair| in_a_row(*pair)).count())
    }

    /// How many pages, from the first on, still hold: what was copied out of their frames since the
    /// look-up are their bytes. [`FoundPage::still_holds`] has the argument; one fence will do for
    /// all, as it comes after all copies.
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
