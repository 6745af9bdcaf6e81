//! Pins of frames: the bytes of a pinned page stay in place, to be read without a copy. Pinning
//! takes no lock and never waits. The driver does not evict a pinned frame, and a reader cannot pin
//! a frame that the driver has taken.
//!
//! tests/loom.rs explains which access each memory ordering guards, and against which race.

use super::entry::GENERATION_BITS;
use super::{FoundPage, Frame, Generation, PageEntry, PageTable};
use crate::sync::{AtomicU64, Ordering};

/// Pins and generation of a frame, shared by readers and the driver in one word.
///
/// ```text
///   63       60 59                         32  31                                   0
///  +-----------+-----------------------------+---+-----------------------------------+
///  |           |         generation          | O |               pins                |
///  +-----------+-----------------------------+---+-----------------------------------+
///
///   listed, or filled    g, 0 pins  <-- pin, unpin -->  g, n pins
///                            |                              |
///   page leaves              | close, on eviction           | orphan, on anything else
///                            v                              v
///   next page            g + 1, 0 pins  <--- reopen ---  g, O, n .. 0 pins
/// ```
///
/// A free frame's word has no pins, no `O`, and a generation that no entry has named yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct FrameWord(u64);

/// Limit of the pages that readers may pin.
///
/// Each handle takes some pins at a time and returns them when it ends. A reader must own one for
/// each page that it pins, until the pin has ended and, for the last pin of an orphan, until the
/// driver has been notified. Otherwise the driver may find no frame to evict.
///
/// It has a cache line to itself, because look-ups constantly read the words next to it.
#[derive(Debug)]
#[repr(align(128))]
pub struct PinBudget {
    granted: AtomicU64,
    max: u64,
}

/// For readers.
impl PageTable {
    /// Pins the page that was found, until [`unpin`](Self::unpin) with the same frame and
    /// generation. Returns false if the page is not up to date, or has left since the look-up.
    ///
    /// ```text
    ///   reader   load entry     pin           read in place            unpin
    ///   -------------|-----------|=================================|---->
    ///   driver                         close: refused, the page     close, clear entry, refill
    ///   --------------------------------|--- goes round ------------------|------------|------>
    /// ```
    ///
    /// Relaxed is enough. The bytes came with the entry, which was loaded with Acquire. The pin is
    /// a read-modify-write and sees the driver's newest word: if the frame had been closed after
    /// the look-up, the generation would differ.
    ///
    /// The caller must own a pin of the [budget](Self::pin_budget).
    #[inline]
    #[must_use = "what is pinned and never unpinned is never freed"]
    pub fn pin(&self, found: &FoundPage<'_>) -> bool {
        let entry = found.entry();
        entry.is_up_to_date() && self.pin_entry(entry)
    }

    /// Ends one pin; returns true for the last pin of an orphan. The caller then has to call
    /// [`PageCache::unpinned`](crate::cache::PageCache::unpinned), because only it has learnt that
    /// the frame is no longer in use.
    ///
    /// Release: all reads of the pinned page happen before the refill.
    ///
    /// # Panics
    ///
    /// If the frame is not pinned, or was pinned for another generation.
    #[inline]
    #[must_use = "an orphan that is not reported is lost"]
    pub fn unpin(&self, frame: Frame, generation: Generation) -> bool {
        let was = FrameWord(self.word(frame).fetch_sub(1, Ordering::Release));
        assert!(was.pins() > 0, "{frame:?} is unpinned more often than it was pinned");
        assert!(was.generation() == generation, "{frame:?} was pinned for another page");
        was.is_orphan() && was.pins() == 1
    }

    /// Returns the limit of pinned pages.
    #[must_use]
    pub fn pin_budget(&self) -> &PinBudget {
        &self.pins
    }

    #[inline]
    fn pin_entry(&self, entry: PageEntry) -> bool {
        let next = |word| FrameWord(word).pinned(entry.generation()).map(|word| word.0);
        self.word(entry.frame()).fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    #[inline]
    fn word(&self, frame: Frame) -> &AtomicU64 {
        &self.frames[frame.0 as usize]
    }
}

/// For the driver, which alone changes generations and makes orphans.
impl PageTable {
    /// Returns the generation of the frame's page, or of its next page if it is free.
    pub(crate) fn generation(&self, frame: Frame) -> Generation {
        FrameWord(self.word(frame).load(Ordering::Relaxed)).generation()
    }

    /// Closes the frame to readers unless it is pinned; returns true if it is closed.
    ///
    /// Acquire: reads by earlier pins happen before the refill. The frame is closed before its
    /// entry is cleared; in the reverse order, the page would already be gone if the frame turned
    /// out to be pinned.
    pub(crate) fn close(&self, frame: Frame) -> bool {
        let open = FrameWord::new(self.generation(frame));
        let closed = FrameWord::new(open.generation().next());
        let word = self.word(frame);
        word.compare_exchange(open.0, closed.0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Marks a frame whose page has left the table, so that it gets no new pins. Returns true if it
    /// has pins; the last [`unpin`](Self::unpin) then reports their end.
    pub(crate) fn orphan(&self, frame: Frame) -> bool {
        let was = FrameWord(self.word(frame).fetch_or(FrameWord::ORPHAN, Ordering::Relaxed));
        assert!(!was.is_orphan(), "{frame:?} is an orphan already");
        was.pins() > 0
    }

    /// Prepares an orphan without pins for its next page.
    ///
    /// A plain store is enough because an orphan gets no new pins. Acquire, as in
    /// [`close`](Self::close): the unpinner that reported was the last one, but other pins may have
    /// ended before.
    pub(crate) fn reopen(&self, frame: Frame) {
        let was = FrameWord(self.word(frame).load(Ordering::Acquire));
        assert!(was.is_orphan(), "{frame:?} is not an orphan");
        assert!(was.pins() == 0, "{frame:?} is still pinned");
        let next = FrameWord::new(was.generation().next());
        self.word(frame).store(next.0, Ordering::Relaxed);
    }
}

impl PinBudget {
    pub(super) fn new(frames: u32) -> Self {
        Self { granted: AtomicU64::new(0), max: Self::of(frames) }
    }

    /// Returns the number of frames, out of `frames`, that may be pinned at a time.
    ///
    /// It is a quarter because a pin may last indefinitely, and the rest must suffice for all other
    /// reads. This quarter is never promised to a read, pinned or not; see
    /// [`PageCache::available`](crate::cache::PageCache::available).
    pub(crate) const fn of(frames: u32) -> u64 {
        frames as u64 / 4
    }

    /// Takes up to `wanted` pins; returns the number taken, which may be 0.
    ///
    /// Relaxed: the counter guards no other memory.
    #[must_use = "pins that are not given back are lost"]
    pub fn try_take(&self, wanted: u64) -> u64 {
        let grant = |granted: u64| wanted.min(self.max - granted);
        let next = |granted| Some(granted + grant(granted)).filter(|next| *next > granted);
        let order = Ordering::Relaxed;
        self.granted.fetch_update(order, order, next).map_or(0, grant)
    }

    /// Returns pins to the budget.
    ///
    /// # Panics
    ///
    /// If fewer were taken.
    pub fn give_back(&self, pins: u64) {
        let granted = self.granted.fetch_sub(pins, Ordering::Relaxed);
        assert!(granted >= pins, "{pins} pins are given back, and {granted} were taken");
    }

    /// Returns the number of pins that are taken.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.granted.load(Ordering::Relaxed)
    }

    /// Returns the limit.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }
}

impl FrameWord {
    const ORPHAN: u64 = 1 << 31;
    const PINS: u64 = Self::ORPHAN - 1;

    /// Creates a word without pins.
    const fn new(generation: Generation) -> Self {
        Self((generation.0 as u64) << u32::BITS)
    }

    #[inline]
    const fn generation(self) -> Generation {
        Generation((self.0 >> u32::BITS) as u32)
    }

    #[inline]
    const fn is_orphan(self) -> bool {
        self.0 & Self::ORPHAN != 0
    }

    #[inline]
    const fn pins(self) -> u64 {
        self.0 & Self::PINS
    }

    /// Returns the word with one more pin; None if the frame holds another page, or is an orphan.
    #[inline]
    fn pinned(self, generation: Generation) -> Option<Self> {
        // There are fewer pins than frames, so the count cannot overflow.
        (self.generation() == generation && !self.is_orphan()).then_some(Self(self.0 + 1))
    }
}

const _: () = assert!(GENERATION_BITS <= u32::BITS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_grants_what_it_has_and_no_more() {
        let budget = PinBudget::new(43);
        assert_eq!(budget.max(), 10);
        assert_eq!(budget.try_take(7), 7);
        assert_eq!(budget.try_take(7), 3);
        assert_eq!(budget.try_take(7), 0);
        budget.give_back(4);
        assert_eq!((budget.granted(), budget.try_take(1), budget.granted()), (6, 1, 7));
    }

    #[test]
    fn threads_that_take_and_give_back_never_have_more_than_there_are() {
        let budget = PinBudget::new(40);
        let held = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for want in 1..5 {
                let (budget, held) = (&budget, &held);
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        let got = budget.try_take(want);
                        let all = held.fetch_add(got, Ordering::SeqCst) + got;
                        assert!(all <= budget.max(), "{all} are held");
                        held.fetch_sub(got, Ordering::SeqCst);
                        budget.give_back(got);
                    }
                });
            }
        });
        assert_eq!(budget.granted(), 0);
    }

    #[test]
    #[should_panic(expected = "are given back")]
    fn a_pin_that_was_not_taken_cannot_be_returned() {
        PinBudget::new(40).give_back(1);
    }

    #[test]
    fn a_word_of_all_ones_keeps_its_parts_apart() {
        let word = FrameWord::new(Generation((1 << GENERATION_BITS) - 1));
        assert_eq!((word.pins(), word.is_orphan()), (0, false));
        let full = FrameWord(word.0 | FrameWord::PINS);
        assert_eq!((full.generation(), full.is_orphan()), (word.generation(), false));
        assert_eq!(FrameWord(word.0 | FrameWord::ORPHAN).pinned(word.generation()), None);
        assert_eq!(word.pinned(word.generation().next()), None);
        assert_eq!(word.pinned(word.generation()), Some(FrameWord(word.0 + 1)));
    }
}
