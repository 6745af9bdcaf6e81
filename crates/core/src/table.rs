//! The page table: which frame holds a page, for any number of readers and one driver.
//!
//! In:    a file and a page.
//! Out:   the page's [`PageEntry`], and a way to ask later whether it still holds, or to pin it; to
//!        the driver also which pages around it are resident.
//! Never: a lock, a page's bytes. A reader may miss a page that is there; it never gets another's.
//!
//! Which line each ordering guards, and against what, is in tests/loom.rs.

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

/// Names an open file in the table. The number may name another file once this one is forgotten.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileSlot(pub u32);

/// All that readers share: arrays of words, of a size that never changes.
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
/// Why a hash and not a tree per file: random reads over 1 TiB then cost what the memory bound
/// allows and no more. In the worst case each leaf holds one page, so there are as many leaves as
/// frames. Memory of leaves is reused and never freed, so a reader that comes late reads a word
/// that means another page, and finds that out; it never reads something that is no word.
#[derive(Debug)]
pub struct PageTable {
    /// `hash << 32 | leaf + 1`, or 0.
    slots: Box<[AtomicU64]>,
    /// For each leaf the [`LeafKey`] of the pages that it holds now, or 0.
    keys: Box<[AtomicU64]>,
    /// For each leaf its [`PageEntry`]s, or 0.
    cells: Box<[AtomicU64]>,
    /// For each frame its pins: see `table/pins.rs`.
    frames: Box<[AtomicU64]>,
    pins: PinBudget,
}

/// A page that was in the table when the reader looked.
#[derive(Clone, Copy, Debug)]
pub struct FoundPage<'t> {
    cell: &'t AtomicU64,
    entry: PageEntry,
}

impl PageTable {
    /// Finds a page; any thread may ask at any time.
    ///
    /// None means "not seen": the page may be there all the same if its leaf is just being moved.
    /// A caller that must know asks the driver.
    #[inline]
    #[must_use]
    pub fn look_up(&self, file: FileSlot, page: PageIndex) -> Option<FoundPage<'_>> {
        let key = LeafKey::of(file, page);
        let leaf = self.find(key)?;
        let cell = self.cell(EntryPlace { leaf, index: index_in_leaf(page) });
        let entry = PageEntry(cell.load(Ordering::Acquire));
        // The leaf may have been given to other pages since it was found, and then the entry is one
        // of theirs. Keys change only while a leaf is empty, so after an entry of theirs we cannot
        // load our old key. (After our own, evicted entry we can; `still_holds` finds that out.)
        let is_ours = self.key(leaf) == Some(key);
        (is_ours && entry.is_present()).then_some(FoundPage { cell, entry })
    }
}

impl FoundPage<'_> {
    /// The entry as it was when the page was found.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> PageEntry {
        self.entry
    }

    /// Whether what was copied out of the frame since the look-up is the page.
    ///
    /// ```text
    ///   reader   load entry       copy                    fence, load entry again
    ///   ---------------|============================|--------------|------------->
    ///   driver                   clear entry, fence, refill frame, publish
    ///   -----------------------------|------------------|===========|------------>
    /// ```
    ///
    /// If the copy saw one byte of the refill, it came after the driver's fence, and so the second
    /// load sees at least the cleared entry. What comes later has another generation.
    #[inline]
    #[must_use]
    pub fn still_holds(&self) -> bool {
        fence(Ordering::Acquire);
        let now = PageEntry(self.cell.load(Ordering::Relaxed));
        // What is up to date stays so as long as it is there.
        self.entry.is_up_to_date() && now.names_same(self.entry)
    }

    /// Notes a use of the page: the first clears `unused`, a later one sets `referenced`, unless it
    /// merely `continues` where the stream's last read ended (one pass over a page is one use).
    ///
    /// A page that has left in the meantime is not touched.
    #[inline]
    pub fn touch(&self, continues: bool) {
        // Most uses change nothing, and an entry that is only loaded costs no other reader a miss.
        if self.entry.touched(continues).is_some() {
            self.change(|entry| entry.touched(continues));
        }
    }

    /// Takes the marker off the page; true for exactly one caller.
    #[inline]
    #[must_use]
    pub fn take_marker(&self) -> bool {
        self.entry.has_marker()
            && self.change(|entry| entry.has_marker().then(|| entry.without(MARKER)))
    }

    /// Changes the entry as long as it names the same page; says whether it did.
    ///
    /// Tries again when it loses a race. That ends: a page's life in a frame has few flags to lose
    /// races to, and each is set and cleared rarely.
    fn change(&self, next: impl Fn(PageEntry) -> Option<PageEntry>) -> bool {
        let next = |word| {
            let now = PageEntry(word);
            if now.names_same(self.entry) { next(now).map(|entry| entry.0) } else { None }
        };
        self.cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

/// Where the table keeps an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct EntryPlace {
    pub(crate) leaf: u32,
    pub(crate) index: u32,
}

/// What a leaf holds: `file + 1` in 19 bits, then the first page / 64 in 45 bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct LeafKey(u64);

/// One place of the index: the hash of a leaf's key in the upper half, leaf + 1 in the lower; or 0.
///
/// The hash saves a look at the keys of neighbours, and tells where the slot would like to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Slot(u64);

/// The index: open addressing with linear probing, no more than half full.
///
/// All of it is relaxed. A slot says where to look, and the leaf's key says whether that was right.
impl PageTable {
    #[inline]
    fn find(&self, key: LeafKey) -> Option<u32> {
        let hash = key.hash();
        let mut at = self.home(hash);
        // Leaves may move while a reader looks: one round is enough, and bounds the search.
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

    /// Removes a slot and moves those behind it to where a search will look for them.
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

    /// Where the search for a hash begins: as far through the slots as the hash is through 2^32.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> u32::BITS) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 < self.slots.len() { at + 1 } else { 0 }
    }

    /// How many steps forward lead from one place to another.
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
        // A larger page would find itself in another file.
        assert!(file.0 < FILES_MAX, "{file:?} is no file slot");
        assert!(page.0 < MAX_FILE_PAGES.0, "{page:?} is past the end of the largest file");
        Self(u64::from(file.0 + 1) << BASE_BITS | (page.0 / LEAF_PAGES))
    }

    /// The key of the 64 pages before, if the file has any.
    #[inline]
    fn before(self) -> Option<Self> {
        (self.0 & BASE_MASK != 0).then(|| Self(self.0 - 1))
    }

    /// The key of the 64 pages after, if a file may have any.
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

/// Mixes a word so that each of the upper bits depends on all bits. No two words mix to the same.
///
/// Why two multiplications: after one, words at equal steps lie at equal steps again, and there are
/// steps (4181 leaves, with this factor) at which they lie side by side. In a table with linear
/// probing such a file makes one heap, and a look-up walks through thousands of slots.
#[inline]
pub(crate) const fn mix(word: u64) -> u64 {
    let word = word.wrapping_mul(MIX_FIRST);
    (word ^ (word >> 32)).wrapping_mul(MIX_SECOND)
}

/// One past the largest file slot: a key has 19 bits for `file + 1`.
pub(crate) const FILES_MAX: u32 = (1 << (u64::BITS - BASE_BITS)) - 1;

/// Pages in a leaf: as many as a word has bits, so that a run of them is counted in one step.
const LEAF_PAGES: u64 = 64;
const LEAF_CELLS: usize = 64;

/// Half of the slots are empty at least. A search that fails then looks at 2.5 slots on average
/// (Knuth, volume 3, 6.4), which is one cache line.
const SLOTS_PER_LEAF: usize = 2;

/// The largest file has 2^51 pages, so 2^45 leaves.
const BASE_BITS: u32 = 45;
const BASE_MASK: u64 = (1 << BASE_BITS) - 1;
const _: () = assert!(MAX_FILE_PAGES.0 == LEAF_PAGES << BASE_BITS);

/// Odd, and without a pattern: 2^64 over the golden ratio, and a factor of splitmix64.
const MIX_FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX_SECOND: u64 = 0xbf58_476d_1ce4_e5b9;
