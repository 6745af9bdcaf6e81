//! Position of a frame's page in the page table and the frame's list, packed into one word.

use crate::table::EntryPlace;

/// Position of a frame's page in the table, and the list the frame belongs to; 0 if it has no page.
///
/// ```text
///   mark, 27 bits | leaf, 28 bits | index in the leaf, 6 | ahead, 1 | active, 1 | 1
/// ```
///
/// A page with both flags belongs to the ahead list until it is seen used, and is active from then
/// on. The mark is that of an unstable page ([`super::unstable`]) and moves with the page; 0 is
/// none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct FrameHome(pub(super) u64);

impl FrameHome {
    pub(super) const NONE: Self = Self(0);
    pub(super) const SOME: u64 = 1;
    pub(super) const ACTIVE: u64 = 2;
    pub(super) const AHEAD: u64 = 4;
    pub(super) const FLAGS: u32 = 3;
    pub(super) const MARK: u32 = Self::FLAGS + 28 + 6;

    pub(super) fn new(place: EntryPlace, active: bool, ahead: bool) -> Self {
        debug_assert!(place.leaf < 1 << 28, "a leaf's number fits 28 bits");
        debug_assert!(place.index < 64, "a leaf has 64 pages");
        let place = u64::from(place.leaf) << 6 | u64::from(place.index);
        let flags = if active { Self::ACTIVE } else { 0 } | if ahead { Self::AHEAD } else { 0 };
        Self(place << Self::FLAGS | flags | Self::SOME)
    }

    pub(super) fn place(self) -> Option<EntryPlace> {
        let place = (self.0 & ((1 << Self::MARK) - 1)) >> Self::FLAGS;
        let leaf = u32::try_from(place >> 6).expect("a leaf's number fits 28 bits");
        (self != Self::NONE).then_some(EntryPlace { leaf, index: (place & 63) as u32 })
    }

    pub(super) fn mark(self) -> u32 {
        u32::try_from(self.0 >> Self::MARK).expect("a mark has 27 bits")
    }

    pub(super) fn marked(self, mark: u32) -> Self {
        assert!(mark < 1 << MARK_BITS, "a mark has 27 bits");
        Self(self.0 & ((1 << Self::MARK) - 1) | u64::from(mark) << Self::MARK)
    }

    pub(super) fn is_active(self) -> bool {
        self.0 & Self::ACTIVE != 0
    }

    pub(super) fn is_ahead(self) -> bool {
        self.0 & Self::AHEAD != 0
    }
}

/// Bits of a [`FrameHome`] that remain for the mark.
pub(super) const MARK_BITS: u32 = 27;

const _: () = assert!(FrameHome::MARK + MARK_BITS == u64::BITS);
