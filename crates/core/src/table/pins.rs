//! Pins of frames: a pinned page's bytes stay where they are, to be read without a copy.
//!
//! In:    a page that was found; a frame whose page leaves.
//! Out:   a pin, or none; to the last of an orphan's pinners, that it was the last.
//! Never: a lock, a wait. The driver does not take what is pinned, and a pin is not given on what
//!        the driver has taken.
//!
//! Which line each ordering guards, and against what, is in tests/loom.rs.

use super::entry::GENERATION_BITS;
use super::{FoundPage, Frame, Generation, PageEntry, PageTable};
use crate::sync::{AtomicU64, Ordering};

/// What readers and the driver agree on about a frame, in one word.
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
/// A free frame's word is clean: no pins, no `O`, and a generation that no entry has named yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct FrameWord(u64);

/// How many more pages readers may pin.
///
/// Each handle takes some at a time and gives them back when it ends; a pin without one of these in
/// hand is against the rules, and the driver may then find no frame to evict. One for a pin, until
/// the pin has ended and, if it was the last of an orphan, until that was told to the driver.
///
/// It lies in a cache line of its own: look-ups read the words beside it all the time.
#[derive(Debug)]
#[repr(align(128))]
pub struct PinBudget {
    granted: AtomicU64,
    max: u64,
}

/// For readers.
impl PageTable {
    /// Keeps the page that was found where it is, until [`unpin`](Self::unpin) of the same frame
    /// and generation. False if its bytes are not there yet, or the page has left since.
    ///
    /// ```text
    ///   reader   load entry     pin           read in place            unpin
    ///   -------------|-----------|=================================|---->
    ///   driver                         close: refused, the page     close, clear entry, refill
    ///   --------------------------------|--- goes round ------------------|------------|------>
    /// ```
    ///
    /// Relaxed will do. The bytes came with the entry, which was loaded with Acquire; and this is a
    /// read-modify-write, so it sees the driver's newest word: had the frame been closed since the
    /// entry was there, the generation would be another.
    ///
    /// The caller has a pin from the [budget](Self::pin_budget) in hand.
    #[inline]
    #[must_use = "what is pinned and never unpinned is never freed"]
    pub fn pin(&self, found: &FoundPage<'_>) -> bool {
        let entry = found.entry();
        entry.is_up_to_date() && self.pin_entry(entry)
    }

    /// Ends one pin; true for the last of an orphan. Only this caller knows then that the frame is
    /// not in use any more, and must call
    /// [`PageCache::unpinned`](crate::cache::PageCache::unpinned).
    ///
    /// Release: the refill comes after all that was read while the page was pinned.
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

    /// How many pages may be pinned.
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
    /// The generation of the page that the frame holds, or of the next one if it is free.
    pub(crate) fn generation(&self, frame: Frame) -> Generation {
        FrameWord(self.word(frame).load(Ordering::Relaxed)).generation()
    }

    /// Takes the frame away from readers unless it is pinned; says whether it did.
    ///
    /// Acquire: what readers read while they had it pinned comes before the refill. First this,
    /// then the entry is cleared: the other way round a page that turns out to be pinned would be
    /// gone already.
    pub(crate) fn close(&self, frame: Frame) -> bool {
        let open = FrameWord::new(self.generation(frame));
        let closed = FrameWord::new(open.generation().next());
        let word = self.word(frame);
        word.compare_exchange(open.0, closed.0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Marks a frame whose page has left the table: it gets no new pins. Says whether it has some;
    /// then the last [`unpin`](Self::unpin) will say when they have ended.
    pub(crate) fn orphan(&self, frame: Frame) -> bool {
        let was = FrameWord(self.word(frame).fetch_or(FrameWord::ORPHAN, Ordering::Relaxed));
        assert!(!was.is_orphan(), "{frame:?} is an orphan already");
        was.pins() > 0
    }

    /// Makes an orphan without pins ready for its next page.
    ///
    /// A plain store: an orphan gets no new pins. Acquire, as in [`close`](Self::close): the
    /// unpinner that reported it was the last one, but it need not have been the only one.
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

    /// How many of so many frames may be pinned at a time.
    ///
    /// A quarter: a pin may last without limit, and the rest must do for all other reads. So many
    /// frames are never promised to a read, whether they are pinned at the moment or not: see
    /// [`PageCache::available`](crate::cache::PageCache::available).
    pub(crate) const fn of(frames: u32) -> u64 {
        frames as u64 / 4
    }

    /// Takes up to `wanted` pins; says how many, which may be none.
    ///
    /// Relaxed: this is a number and guards nothing else.
    #[must_use = "pins that are not given back are lost"]
    pub fn try_take(&self, wanted: u64) -> u64 {
        let grant = |granted: u64| wanted.min(self.max - granted);
        let next = |granted| Some(granted + grant(granted)).filter(|next| *next > granted);
        let order = Ordering::Relaxed;
        self.granted.fetch_update(order, order, next).map_or(0, grant)
    }

    /// Gives back so many.
    ///
    /// # Panics
    ///
    /// If fewer were taken.
    pub fn give_back(&self, pins: u64) {
        let granted = self.granted.fetch_sub(pins, Ordering::Relaxed);
        assert!(granted >= pins, "{pins} pins are given back, and {granted} were taken");
    }

    /// How many are taken at the moment.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.granted.load(Ordering::Relaxed)
    }

    /// How many there are.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }
}

impl FrameWord {
    const ORPHAN: u64 = 1 << 31;
    const PINS: u64 = Self::ORPHAN - 1;

    /// Without pins.
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

    /// With one more pin; None if it holds another page, or its page has left.
    #[inline]
    fn pinned(self, generation: Generation) -> Option<Self> {
        // There are fewer pins than frames, so the count has room.
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
    fn what_was_not_taken_cannot_be_given_back() {
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
