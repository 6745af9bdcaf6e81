//! The driver's side of the page table, which alone adds and removes pages. It allocates only at
//! the start and never waits for a reader.

#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::entry::{FRAMES_MAX, REFERENCED, UP_TO_DATE};
use super::{
    EntryPlace, FileSlot, Frame, Generation, LEAF_CELLS, LEAF_PAGES, LeafKey, PageEntry, PageTable,
    PinBudget, SLOTS_PER_LEAF, index_in_leaf,
};
use crate::sync::{AtomicU64, Ordering, fence, zeroed};
use crate::units::{MAX_FILE_PAGES, PageIndex, Pages};

/// The driver's side of the table.
///
/// Data that only the driver needs is here, in plain memory.
#[derive(Debug)]
pub(crate) struct TableWriter {
    table: Arc<PageTable>,
    /// For each leaf in use, a bit for each resident page. For a free leaf, the next free one (leaf
    /// + 1), or 0.
    resident: Vec<u64>,
    /// The free leaf that was used most recently (leaf + 1), or 0.
    free: u32,
    /// Leaves from this number on have never been used.
    fresh: u32,
}

impl TableWriter {
    /// Bytes for each frame, here and in [`PageTable`].
    pub(crate) const BYTES_PER_FRAME: u64 =
        ((LEAF_CELLS + SLOTS_PER_LEAF + 2) * size_of::<AtomicU64>() + size_of::<u64>()) as u64;

    pub(crate) fn new(frames: u32) -> Self {
        assert!(frames > 0, "a table holds at least one page");
        assert!(frames <= FRAMES_MAX, "{frames} frames do not fit an entry");
        let leaves = frames as usize;
        let table = PageTable {
            slots: zeroed(leaves * SLOTS_PER_LEAF),
            keys: zeroed(leaves),
            cells: zeroed(leaves * LEAF_CELLS),
            frames: zeroed(leaves),
            pins: PinBudget::new(frames),
        };
        Self { table: Arc::new(table), resident: vec![0; leaves], free: 0, fresh: 0 }
    }

    pub(crate) fn table(&self) -> &Arc<PageTable> {
        &self.table
    }

    /// Returns the page of an entry.
    pub(crate) fn page_at(&self, place: EntryPlace) -> (FileSlot, PageIndex) {
        let key = self.table.key(place.leaf).expect("a place lies in a leaf that is in use");
        (key.file(), key.base() + Pages(u64::from(place.index)))
    }

    /// Adds a page that is not resident.
    pub(crate) fn insert(
        &mut self,
        file: FileSlot,
        page: PageIndex,
        entry: PageEntry,
    ) -> EntryPlace {
        assert!(entry.is_present(), "what is added is present");
        let key = LeafKey::of(file, page);
        let leaf = match self.table.find(key) {
            Some(leaf) => leaf,
            None => self.add_leaf(key),
        };
        let place = EntryPlace { leaf, index: index_in_leaf(page) };
        let bit = 1 << place.index;
        assert!(self.resident[leaf as usize] & bit == 0, "{page:?} of {file:?} is resident");
        self.resident[leaf as usize] |= bit;

        let cell = self.table.cell(place);
        assert!(cell.load(Ordering::Relaxed) == 0, "what is not resident has no entry");
        // A plain store is enough: no reader changes an empty entry.
        cell.store(entry.0, Ordering::Release);
        place
    }

    /// Marks the page up to date, regardless of the flags that readers have changed.
    ///
    /// Release: a reader that sees the flag sees the bytes.
    pub(crate) fn set_up_to_date(
        &mut self,
        place: EntryPlace,
        frame: Frame,
        generation: Generation,
    ) {
        let was = self.update(place, Ordering::Release, |entry| entry.with(UP_TO_DATE));
        assert!((was.frame(), was.generation()) == (frame, generation), "{was:?} is not {frame:?}");
        assert!(!was.is_up_to_date(), "{was:?} was filled before");
    }

    /// Clears `referenced`; returns true if it was set.
    pub(crate) fn take_referenced(&mut self, place: EntryPlace) -> bool {
        let now = PageEntry(self.table.cell(place).load(Ordering::Relaxed));
        now.is_referenced()
            && self.update(place, Ordering::Relaxed, |entry| entry.without(REFERENCED)).is_present()
    }

    /// Returns the entry at a place.
    pub(crate) fn entry_at(&self, place: EntryPlace) -> PageEntry {
        PageEntry(self.table.cell(place).load(Ordering::Relaxed))
    }

    /// Returns the positions of the neighbouring pages, if they are resident.
    pub(crate) fn beside(&self, place: EntryPlace) -> [Option<EntryPlace>; 2] {
        let EntryPlace { leaf, index } = place;
        let at = |leaf: u32, index: u32| {
            (self.resident[leaf as usize] & 1 << index != 0).then_some(EntryPlace { leaf, index })
        };
        let last = index_in_leaf(PageIndex(LEAF_PAGES - 1));
        let key = || self.table.key(leaf).expect("a place lies in a leaf that is in use");
        let in_leaf = |key: Option<LeafKey>, beside: u32, index: u32| {
            self.leaf_beside(key?, beside).and_then(|(_, leaf)| at(leaf, index))
        };
        let before = match index {
            0 => in_leaf(key().before(), leaf.wrapping_sub(1), last),
            _ => at(leaf, index - 1),
        };
        let after =
            if index == last { in_leaf(key().after(), leaf + 1, 0) } else { at(leaf, index + 1) };
        [before, after]
    }

    /// Returns the position of a page, if it is resident.
    pub(crate) fn place_of(&self, file: FileSlot, page: PageIndex) -> Option<EntryPlace> {
        let (_, leaf) = self.leaf_of(file, page)?;
        let index = index_in_leaf(page);
        (self.resident[leaf as usize] & 1 << index != 0).then_some(EntryPlace { leaf, index })
    }

    /// Moves the page to another frame; returns the old entry.
    ///
    /// ```text
    ///   reader   load entry        copy                 load entry again: another frame
    ///   -------------|=======================|---------------|--------->
    ///   driver              fill fresh, swap entry, fence, refill the old frame
    ///   ------------------=====-------|--------|----------=====--------->
    /// ```
    ///
    /// Release: a reader that sees the new frame sees its bytes. The fence is needed as in
    /// [`Self::remove`], because the old frame may be refilled from here on.
    pub(crate) fn swap(&mut self, place: EntryPlace, entry: PageEntry) -> PageEntry {
        assert!(entry.is_up_to_date(), "what is swapped in has its bytes");
        let last = self.update(place, Ordering::Release, |was| entry.after(was));
        fence(Ordering::Release);
        assert!(last.frame() != entry.frame(), "{entry:?} is swapped for itself");
        last
    }

    /// Removes a page and returns its last entry, with all flags that readers have set.
    ///
    /// The frame may be refilled from here on. The fence lets a reader that is copying detect it
    /// (see [`FoundPage::still_holds`](super::FoundPage::still_holds)).
    pub(crate) fn remove(&mut self, place: EntryPlace) -> PageEntry {
        let last = self.update(place, Ordering::Relaxed, |_| PageEntry::EMPTY);
        fence(Ordering::Release);

        let resident = &mut self.resident[place.leaf as usize];
        assert!(*resident & 1 << place.index != 0, "what is removed was resident");
        *resident &= !(1 << place.index);
        if *resident == 0 {
            self.remove_leaf(place.leaf);
        }
        last
    }

    /// Removes the pages of the file in `[start, end)` for which `goes` returns true, and passes
    /// their last entries to `removed`.
    ///
    /// Visits either the leaves that the range may have or all leaves in use, whichever are fewer.
    pub(crate) fn remove_range(
        &mut self,
        file: FileSlot,
        start: PageIndex,
        end: PageIndex,
        goes: impl Fn(PageEntry) -> bool,
        mut removed: impl FnMut(PageEntry),
    ) {
        let mut remove = |table: &mut Self, place: EntryPlace| {
            if goes(PageEntry(table.table.cell(place).load(Ordering::Relaxed))) {
                removed(table.remove(place));
            }
        };
        let end = end.min(PageIndex(MAX_FILE_PAGES.0));
        let bases = start.0 / LEAF_PAGES..end.0.div_ceil(LEAF_PAGES);
        if bases.end.saturating_sub(bases.start) <= u64::from(self.fresh) {
            for base in bases {
                let key = LeafKey::of(file, PageIndex(base * LEAF_PAGES));
                if let Some(leaf) = self.table.find(key) {
                    self.remove_in_leaf(leaf, key.base(), start, end, &mut remove);
                }
            }
        } else {
            for leaf in 0..self.fresh {
                if let Some(key) = self.table.key(leaf).filter(|key| key.file() == file) {
                    self.remove_in_leaf(leaf, key.base(), start, end, &mut remove);
                }
            }
        }
    }

    /// Returns the number of resident pages without a gap just before `page`, at most `limit`.
    ///
    /// ```text
    ///    leaf            leaf            leaf
    ///   |. . # # # # # #|# # # # # # # #|# # # P . . . .|
    ///       ^ a hole:    64 pages at     the bits below P, moved to the top
    ///         stop       a step          of the word, counted from there
    /// ```
    pub(crate) fn history(&self, file: FileSlot, page: PageIndex, limit: Pages) -> Pages {
        let Some(last) = page.0.checked_sub(1).map(PageIndex) else { return Pages::ZERO };
        let Some((mut key, mut leaf)) = self.leaf_of(file, last) else { return Pages::ZERO };
        let mut known = u64::from(index_in_leaf(last)) + 1;
        let mut missing = !self.resident[leaf as usize] << (LEAF_PAGES - known);
        let mut count = 0;
        while missing == 0 {
            count += known;
            let before = if count < limit.0 { key.before() } else { None };
            let Some(next) = before.and_then(|key| self.leaf_beside(key, leaf.wrapping_sub(1)))
            else {
                return Pages(count).min(limit);
            };
            (key, leaf) = next;
            known = LEAF_PAGES;
            missing = !self.resident[leaf as usize];
        }
        Pages(count + u64::from(missing.leading_zeros())).min(limit)
    }

    /// Returns the first page in `[page, page + limit)` that is not resident, or None.
    pub(crate) fn next_hole(
        &self,
        file: FileSlot,
        page: PageIndex,
        limit: Pages,
    ) -> Option<PageIndex> {
        let in_reach = |count: u64| (count < limit.0).then(|| page + Pages(count));
        let Some((mut key, mut leaf)) = self.leaf_of(file, page) else { return in_reach(0) };
        let mut known = LEAF_PAGES - u64::from(index_in_leaf(page));
        let mut missing = !self.resident[leaf as usize] >> (LEAF_PAGES - known);
        let mut count = 0;
        while missing == 0 {
            count += known;
            let after = if count < limit.0 { key.after() } else { None };
            let Some(next) = after.and_then(|key| self.leaf_beside(key, leaf + 1)) else {
                return in_reach(count);
            };
            (key, leaf) = next;
            known = LEAF_PAGES;
            missing = !self.resident[leaf as usize];
        }
        in_reach(count + u64::from(missing.trailing_zeros()))
    }

    /// Returns the leaf of this page, if there is one. Policies query pages past the end of a file,
    /// and even past that of the largest file.
    fn leaf_of(&self, file: FileSlot, page: PageIndex) -> Option<(LeafKey, u32)> {
        if page.0 >= MAX_FILE_PAGES.0 {
            return None;
        }
        let key = LeafKey::of(file, page);
        Some((key, self.table.find(key)?))
    }

    /// Returns the leaf of this key, trying leaf `beside` first. Leaves are allocated in order, so
    /// those of a stream are mostly adjacent, and comparing one key is cheaper than a search.
    #[inline]
    fn leaf_beside(&self, key: LeafKey, beside: u32) -> Option<(LeafKey, u32)> {
        let found = self.table.keys.get(beside as usize);
        if found.is_some_and(|found| found.load(Ordering::Relaxed) == key.0) {
            return Some((key, beside));
        }
        Some((key, self.table.find(key)?))
    }

    fn remove_in_leaf(
        &mut self,
        leaf: u32,
        base: PageIndex,
        start: PageIndex,
        end: PageIndex,
        remove: &mut impl FnMut(&mut Self, EntryPlace),
    ) {
        // After its last page is removed the leaf is free, and its word is a link instead of bits.
        let mut bits = self.resident[leaf as usize];
        while bits != 0 {
            let index = bits.trailing_zeros();
            bits &= bits - 1;
            let page = base + Pages(u64::from(index));
            if start <= page && page < end {
                remove(self, EntryPlace { leaf, index });
            }
        }
    }

    /// Updates an entry, retrying when a reader interferes, and returns the old one.
    ///
    /// The number of retries is bounded: a reader can change a page's flags in three ways, each
    /// once.
    fn update(
        &self,
        place: EntryPlace,
        order: Ordering,
        next: impl Fn(PageEntry) -> PageEntry,
    ) -> PageEntry {
        let next = |word| {
            let now = PageEntry(word);
            now.is_present().then(|| next(now).0)
        };
        let was = self.table.cell(place).fetch_update(order, Ordering::Relaxed, next);
        PageEntry(was.expect("only the driver removes a page"))
    }

    fn add_leaf(&mut self, key: LeafKey) -> u32 {
        let leaf = match self.free.checked_sub(1) {
            Some(leaf) => {
                let next = self.resident[leaf as usize];
                self.free = u32::try_from(next).expect("a free leaf links to a leaf");
                leaf
            }
            None => {
                self.fresh += 1;
                self.fresh - 1
            }
        };
        self.resident[leaf as usize] = 0;
        // Relaxed is enough here and below: the entries that follow are released, and the fence in
        // `remove` separates the old entries from the new key.
        self.table.keys[leaf as usize].store(key.0, Ordering::Relaxed);
        self.table.add_slot(key.hash(), leaf);
        leaf
    }

    fn remove_leaf(&mut self, leaf: u32) {
        let key = self.table.key(leaf).expect("a leaf that is removed is in use");
        self.table.remove_slot(key.hash(), leaf);
        self.table.keys[leaf as usize].store(0, Ordering::Relaxed);
        self.resident[leaf as usize] = u64::from(self.free);
        self.free = leaf + 1;
    }
}
