//! One word of the page table: the frame, generation and flags of a page. The word itself is a
//! plain value; `table.rs` and `table/writer.rs` change it atomically in place.

/// Number of the memory of one page. The core never sees that memory.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Frame(pub u32);

/// Counts the pages that a frame has held; it wraps after 2^28.
///
/// Frame and generation together identify the frame's current page. An entry that was cleared and
/// written again therefore differs from the one that a reader saw.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Generation(pub(crate) u32);

/// State of one page, in one word.
///
/// ```text
///   63           56 55                            28 27                             0
///  +---------------+--------------------------------+-------------------------------+
///  |     flags     |             frame              |          generation           |
///  +---------------+--------------------------------+-------------------------------+
///   56 present   57 up to date   58 marker   59 unused   60 referenced
///   61, 62, 63 are free: only the driver needs dirty flags, and keeps them elsewhere
/// ```
///
/// Once an entry is visible, readers and driver change it only by compare-exchange of the whole
/// word, so a flag can never be set on a page that has left in the meantime.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PageEntry(pub(super) u64);

impl PageEntry {
    /// No page.
    pub(super) const EMPTY: Self = Self(0);

    /// Returns the frame that holds the page.
    #[inline]
    #[must_use]
    pub const fn frame(self) -> Frame {
        Frame(((self.0 >> GENERATION_BITS) & FRAME_MASK) as u32)
    }

    /// Returns the generation of that frame.
    #[inline]
    #[must_use]
    pub const fn generation(self) -> Generation {
        Generation((self.0 & GENERATION_MASK) as u32)
    }

    /// Returns true if the frame holds the page's bytes; otherwise they are in flight.
    #[inline]
    #[must_use]
    pub const fn is_up_to_date(self) -> bool {
        self.0 & UP_TO_DATE != 0
    }

    /// Returns true if the first use of the page should request the next window.
    #[inline]
    #[must_use]
    pub const fn has_marker(self) -> bool {
        self.0 & MARKER != 0
    }

    /// Returns true if the page was read ahead and not used yet.
    #[inline]
    #[must_use]
    pub const fn is_unused(self) -> bool {
        self.0 & UNUSED != 0
    }

    /// Returns true if the page was used again since it was filled, or since it became active.
    #[inline]
    #[must_use]
    pub const fn is_referenced(self) -> bool {
        self.0 & REFERENCED != 0
    }

    /// Creates the entry of a page in flight.
    pub(crate) fn new(frame: Frame, generation: Generation, unused: bool, marker: bool) -> Self {
        assert!(frame.0 < FRAMES_MAX, "{frame:?} does not fit an entry");
        let flags = PRESENT | if unused { UNUSED } else { 0 } | if marker { MARKER } else { 0 };
        Self(flags | u64::from(frame.0) << GENERATION_BITS | u64::from(generation.0))
    }

    /// Creates the entry of a page that has just been written.
    pub(crate) fn written(frame: Frame, generation: Generation) -> Self {
        Self::new(frame, generation, false, false).with(UP_TO_DATE)
    }

    /// Returns this entry with the marker and the `referenced` flag of `last`, which do not depend
    /// on the page's bytes.
    pub(super) const fn after(self, last: Self) -> Self {
        Self(self.0 | last.0 & (MARKER | REFERENCED))
    }

    pub(super) const fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// Returns true if both are present and name the same page in the same frame; flags may differ.
    pub(super) const fn names_same(self, other: Self) -> bool {
        (self.0 ^ other.0) & (PRESENT | FRAME_MASK << GENERATION_BITS | GENERATION_MASK) == 0
            && self.is_present()
    }

    /// Returns the entry after a use; None if the use changes nothing.
    pub(super) const fn touched(self, continues: bool) -> Option<Self> {
        if self.is_unused() {
            Some(self.without(UNUSED))
        } else if !continues && !self.is_referenced() {
            Some(self.with(REFERENCED))
        } else {
            None
        }
    }

    pub(super) const fn with(self, flag: u64) -> Self {
        Self(self.0 | flag)
    }

    pub(super) const fn without(self, flag: u64) -> Self {
        Self(self.0 & !flag)
    }
}

impl Generation {
    /// Returns the generation of the frame's next page.
    pub(crate) const fn next(self) -> Self {
        Self((self.0 + 1) % GENERATIONS)
    }
}

/// One past the largest frame number.
pub(crate) const FRAMES_MAX: u32 = 1 << FRAME_BITS;

pub(super) const GENERATION_BITS: u32 = 28;
const FRAME_BITS: u32 = 28;
const GENERATIONS: u32 = 1 << GENERATION_BITS;
const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;
const FRAME_MASK: u64 = (1 << FRAME_BITS) - 1;

const PRESENT: u64 = 1 << 56;
pub(super) const UP_TO_DATE: u64 = 1 << 57;
pub(super) const MARKER: u64 = 1 << 58;
const UNUSED: u64 = 1 << 59;
pub(super) const REFERENCED: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(unused: bool, marker: bool) -> PageEntry {
        PageEntry::new(Frame(FRAMES_MAX - 1), Generation(GENERATIONS - 1), unused, marker)
    }

    #[test]
    fn a_frame_and_a_generation_of_all_ones_touch_no_flag() {
        let entry = entry(false, false);
        assert_eq!(entry.0, (1 << 57) - 1);
        assert_eq!(entry.frame(), Frame(FRAMES_MAX - 1));
        assert_eq!(entry.generation(), Generation(GENERATIONS - 1));
        assert!(!entry.is_up_to_date());
        assert!(!entry.is_unused());
        assert!(!entry.has_marker());
        assert!(!entry.is_referenced());
    }

    #[test]
    fn the_first_use_clears_unused_and_a_later_one_sets_referenced_unless_it_continues() {
        let ahead = entry(true, true);
        for continues in [false, true] {
            assert_eq!(ahead.touched(continues), Some(entry(false, true)));
        }
        let used = entry(false, true);
        assert_eq!(used.touched(true), None);
        assert_eq!(used.touched(false), Some(used.with(REFERENCED)));
        assert_eq!(used.with(REFERENCED).touched(false), None);
    }

    #[test]
    fn an_entry_names_the_same_page_whatever_its_flags_are() {
        let one = entry(true, false);
        assert!(one.names_same(one.with(UP_TO_DATE).with(REFERENCED).without(UNUSED)));
        assert!(!one.names_same(PageEntry::EMPTY));
        assert!(!PageEntry::EMPTY.names_same(PageEntry::EMPTY), "nothing is not a page");
        assert!(!one.names_same(PageEntry::new(Frame(0), one.generation(), true, false)));
        assert!(!one.names_same(PageEntry::new(one.frame(), Generation(0), true, false)));
    }

    #[test]
    fn a_written_page_keeps_its_marker_and_its_uses_and_is_up_to_date() {
        let written = PageEntry::written(Frame(7), Generation(3));
        assert!(written.is_up_to_date());
        let old = entry(true, true).with(REFERENCED);
        let next = written.after(old);
        assert!(next.has_marker());
        assert!(next.is_referenced());
        assert!(!next.is_unused());
        assert!(next.names_same(written));
        assert_eq!(written.after(entry(true, false)), written);
    }

    #[test]
    fn a_generation_wraps_to_zero() {
        assert_eq!(Generation(GENERATIONS - 1).next(), Generation(0));
    }
}
