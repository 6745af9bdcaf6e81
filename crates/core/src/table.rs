//! The page table: finds the frame of a page, for any number of readers and one driver.
//!
//! In:    a file and a page.
//! Out:   the page's [`PageEntry`], which a reader can check again later or pin; to the driver,
//!        also the residency of the pages around it.
//! Never: a lock, a page's bytes. A reader may miss a resident page, but never gets another page's
//!        entry.
//!
//! tests/loom.rs explains which access each memory ordering guards, and against which race.

mod entry;
mod pins;
mod run;
mod writer;

use alloc::boxed::Box;

pub(crate) use self::entry::FRAMES_MAX;
use self::entry::MARKER;
pub use self::entry::{Frame, Generation, PageEntry};
pub use self::pins::PinBudget;
pub use self::run::{FoundRun, RUN_MAX};
pub(crate) use self::writer::TableWriter;
use crate::sync::{AtomicU64, Ordering, fence};
use crate::units::{MAX_FILE_PAGES, PageIndex};

/// Index of an open file in the table. It may be reused after the file is forgotten.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileSlot(pub u32);

/// The state shared with readers: arrays of words of fixed size.
///
/// ```text
///   (file, page / 64)
///        | hash                  keys                    cells, 64 a leaf
///        v                      +------------+          +---------------------------+
///   slots: open addressing,     | file, base | leaf 0   | E E . . E . . .   . . . . |
///   two a leaf                  +------------+          +---------------------------+
///  +------+------+------+       | 0 = free   | leaf 1   | . . . . . . . .   . . . . |
///  |hash,0|      |hash,2| ----> +------------+          +---------------------------+
///  +------+------+------+       | file, base | leaf 2   | . . E . . . . .   . . . E |
///                               +------------+          +---------------------------+
/// ```
///
/// A hash, unlike a tree for each file, bounds the metadata of random reads over 1 TiB by the
/// memory bound. In the worst case each leaf contains one page, so there are as many leaves as
/// frames. Leaf memory is reused but never freed. A late reader may therefore load the entry of
/// another page, and detects that, but it never reads memory that is not an entry.
#[derive(Debug)]
pub struct PageTable {
    /// `hash << 32 | leaf + 1`, or 0.
    slots: Box<[AtomicU64]>,
    /// For each leaf, the [`LeafKey`] of its current pages, or 0.
    keys: Box<[AtomicU64]>,
    /// For each leaf, its [`PageEntry`]s, or 0.
    cells: Box<[AtomicU64]>,
    /// For each frame, its pins; see `table/pins.rs`.
    frames: Box<[AtomicU64]>,
    pins: PinBudget,
}

/// A page that was in the table when the reader looked it up.
#[derive(Clone, Copy, Debug)]
pub struct FoundPage<'t> {
    cell: &'t AtomicU64,
    entry: PageEntry,
}

impl PageTable {
    /// Looks up a page, from any thread.
    ///
    /// None means "not seen": the look-up can miss a resident page while its leaf is being moved. A
    /// caller that needs certainty goes through the driver.
    #[inline]
    #[must_use]
    pub fn look_up(&self, file: FileSlot, page: PageIndex) -> Option<FoundPage<'_>> {
        let key = LeafKey::of(file, page);
        let leaf = self.find(key)?;
        let cell = self.cell(EntryPlace { leaf, index: index_in_leaf(page) });
        let entry = PageEntry(cell.load(Ordering::Acquire));
        // The leaf may have been reused for other pages since it was found; the entry is then one
        // of theirs. Keys change only while a leaf is empty, so after loading an entry of other
        // pages we cannot load our old key. (After our own, evicted entry we can; `still_holds`
        // detects that.)
        let is_ours = self.key(leaf) == Some(key);
        (is_ours && entry.is_present()).then_some(FoundPage { cell, entry })
    }
}

impl FoundPage<'_> {
    /// Returns the entry as it was at the look-up.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> PageEntry {
        self.entry
    }

    /// Returns true if the bytes copied from the frame since the look-up belong to the page.
    ///
    /// ```text
    ///   reader   load entry       copy                    fence, load entry again
    ///   ---------------|============================|--------------|------------->
    ///   driver                   clear entry, fence, refill frame, publish
    ///   -----------------------------|------------------|===========|------------>
    /// ```
    ///
    /// If the copy saw a single byte of the refill, it came after the driver's fence, and the
    /// second load sees at least the cleared entry. Any later entry has another generation.
    #[inline]
    #[must_use]
    pub fn still_holds(&self) -> bool {
        fence(Ordering::Acquire);
        let now = PageEntry(self.cell.load(Ordering::Relaxed));
        // An up-to-date page stays so until it leaves.
        self.entry.is_up_to_date() && now.names_same(self.entry)
    }

    /// Records a use of the page. The first use clears `unused`; a later one sets `referenced`,
    /// unless it `continues` where the stream's last read ended (one pass over a page is one use).
    ///
    /// Does nothing if the page has left in the meantime.
    #[inline]
    pub fn touch(&self, continues: bool) {
        // Most uses change nothing, and a plain load does not invalidate other cores' cache lines.
        if self.entry.touched(continues).is_some() {
            self.change(|entry| entry.touched(continues));
        }
    }

    /// Clears the page's marker; returns true for exactly one caller.
    #[inline]
    #[must_use]
    pub fn take_marker(&self) -> bool {
        self.entry.has_marker()
            && self.change(|entry| entry.has_marker().then(|| entry.without(MARKER)))
    }

    /// Changes the entry while it names the same page; returns true if it did.
    ///
    /// Retries after losing a race. The number of retries is bounded: a page has few flags, and
    /// each is set and cleared rarely while the page is in its frame.
    fn change(&self, next: impl Fn(PageEntry) -> Option<PageEntry>) -> bool {
        let next = |word| {
            let now = PageEntry(word);
            if now.names_same(self.entry) { next(now).map(|entry| entry.0) } else { None }
        };
        self.cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

/// Position of an entry in the table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct EntryPlace {
    pub(crate) leaf: u32,
    pub(crate) index: u32,
}

/// The pages of a leaf: `file + 1` in 19 bits, then the first page / 64 in 45 bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct LeafKey(u64);

/// A slot of the index: the hash of a leaf's key in the upper half, leaf + 1 in the lower; 0 if
/// empty.
///
/// The hash spares a search the keys of colliding leaves, and determines the slot's home position.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Slot(u64);

/// The index: open addressing with linear probing, at most half full.
///
/// All accesses are relaxed: a slot only suggests a leaf, and the leaf's key confirms it.
impl PageTable {
    #[inline]
    fn find(&self, key: LeafKey) -> Option<u32> {
        let hash = key.hash();
        let mut at = self.home(hash);
        // Leaves may move during a reader's search; one pass is enough and bounds it.
        for _ in 0..self.slots.len() {
            let slot = self.slot(at);
            if slot == Slot::EMPTY {
                return None;
            }
            if slot.hash() == hash && self.key(slot.leaf()) == Some(key) {
                return Some(slot.leaf());
            }
            at = self.after(at);
        }
        None
    }

    fn add_slot(&self, hash: u32, leaf: u32) {
        let mut at = self.home(hash);
        while self.slot(at) != Slot::EMPTY {
            at = self.after(at);
        }
        self.set_slot(at, Slot::new(hash, leaf));
    }

    /// Removes a slot and moves later slots of the probe sequence up to close the hole.
    ///
    /// ```text
    ///   homes    a   a   b   a   e      remove the first a:
    ///           [a] [a] [b] [a] [e] [ ]
    ///           [a] [.] [b] [a] [e] [ ]    the next a may move here
    ///           [a] [.] [b] [a] [e] [ ]
    /// ```
    fn remove_slot(&self, hash: u32, leaf: u32) {
        let mut hole = self.home(hash);
        while self.slot(hole) != Slot::new(hash, leaf) {
            assert!(self.slot(hole) != Slot::EMPTY, "a leaf in use has a slot");
            hole = self.after(hole);
        }
        let mut at = self.after(hole);
        while self.slot(at) != Slot::EMPTY {
            let slot = self.slot(at);
            if self.distance(self.home(slot.hash()), at) >= self.distance(hole, at) {
                self.set_slot(hole, slot);
                hole = at;
            }
            at = self.after(at);
        }
        self.set_slot(hole, Slot::EMPTY);
    }

    /// Returns the position where the search for a hash begins, scaled from 2^32 to the number of
    /// slots.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> u32::BITS) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 < self.slots.len() { at + 1 } else { 0 }
    }

    /// Returns the number of steps forward from one position to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if from <= to { to - from } else { self.slots.len() - from + to }
    }

    #[inline]
    fn slot(&self, at: usize) -> Slot {
        Slot(self.slots[at].load(Ordering::Relaxed))
    }

    fn set_slot(&self, at: usize, slot: Slot) {
        self.slots[at].store(slot.0, Ordering::Relaxed);
    }

    #[inline]
    fn key(&self, leaf: u32) -> Option<LeafKey> {
        let key = self.keys[leaf as usize].load(Ordering::Relaxed);
        (key != 0).then_some(LeafKey(key))
    }

    #[inline]
    fn cell(&self, place: EntryPlace) -> &AtomicU64 {
        &self.cells[place.leaf as usize * LEAF_CELLS + place.index as usize]
    }

    #[inline]
    fn cells_from(&self, place: EntryPlace, count: usize) -> &[AtomicU64] {
        &self.cells[place.leaf as usize * LEAF_CELLS + place.index as usize..][..count]
    }
}

impl Slot {
    const EMPTY: Self = Self(0);

    const fn new(hash: u32, leaf: u32) -> Self {
        Self((hash as u64) << u32::BITS | (leaf as u64 + 1))
    }

    #[inline]
    const fn hash(self) -> u32 {
        (self.0 >> u32::BITS) as u32
    }

    #[inline]
    const fn leaf(self) -> u32 {
        (self.0 & 0xffff_ffff) as u32 - 1
    }
}

impl LeafKey {
    #[inline]
    fn of(file: FileSlot, page: PageIndex) -> Self {
        // A larger page index would alias another file.
        assert!(file.0 < FILES_MAX, "{file:?} is no file slot");
        assert!(page.0 < MAX_FILE_PAGES.0, "{page:?} is past the end of the largest file");
        Self(u64::from(file.0 + 1) << BASE_BITS | (page.0 / LEAF_PAGES))
    }

    /// Returns the key of the preceding 64 pages, if the file has any.
    #[inline]
    fn before(self) -> Option<Self> {
        (self.0 & BASE_MASK != 0).then(|| Self(self.0 - 1))
    }

    /// Returns the key of the following 64 pages, if a file can have any.
    #[inline]
    fn after(self) -> Option<Self> {
        (self.0 & BASE_MASK != BASE_MASK).then(|| Self(self.0 + 1))
    }

    fn file(self) -> FileSlot {
        FileSlot((self.0 >> BASE_BITS) as u32 - 1)
    }

    fn base(self) -> PageIndex {
        PageIndex((self.0 & BASE_MASK) * LEAF_PAGES)
    }

    #[inline]
    const fn hash(self) -> u32 {
        (mix(self.0) >> u32::BITS) as u32
    }
}

#[inline]
const fn index_in_leaf(page: PageIndex) -> u32 {
    (page.0 % LEAF_PAGES) as u32
}

/// Mixes a word so that each upper bit depends on all bits. The mapping is a bijection.
///
/// One multiplication is not enough: it maps words at equal steps to values at equal steps, and for
/// some steps (4181 leaves, with this factor) these values are adjacent. With linear probing such a
/// file forms one cluster, and a look-up walks through thousands of slots.
#[inline]
pub(crate) const fn mix(word: u64) -> u64 {
    let word = word.wrapping_mul(MIX_FIRST);
    (word ^ (word >> 32)).wrapping_mul(MIX_SECOND)
}

/// One past the largest file slot: a key has 19 bits for `file + 1`.
pub(crate) const FILES_MAX: u32 = (1 << (u64::BITS - BASE_BITS)) - 1;

/// Pages in a leaf: as many as a word has bits, so that one instruction counts a run of them.
const LEAF_PAGES: u64 = 64;
const LEAF_CELLS: usize = 64;

/// At least half of the slots are empty. A failed search then probes 2.5 slots on average (Knuth,
/// volume 3, 6.4), which fit one cache line.
const SLOTS_PER_LEAF: usize = 2;

/// The largest file has 2^51 pages, so 2^45 leaves.
const BASE_BITS: u32 = 45;
const BASE_MASK: u64 = (1 << BASE_BITS) - 1;
const _: () = assert!(MAX_FILE_PAGES.0 == LEAF_PAGES << BASE_BITS);

/// Odd numbers without a pattern: 2^64 over the golden ratio, and a factor of splitmix64.
const MIX_FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX_SECOND: u64 = 0xbf58_476d_1ce4_e5b9;
