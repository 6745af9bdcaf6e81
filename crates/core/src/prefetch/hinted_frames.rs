//! Frames of hinted pages, which the caller named in advance.
//!
//! Unused hinted pages hold at most half of the frames. Hints set no marker, change no stream and
//! never wait for frames.

use alloc::collections::VecDeque;

use crate::cache::{Filling, FlagSeen, PageCache};

use crate::table::{FRAMES_MAX, Frame, Generation};
use crate::units::Pages;

/// Frames of hinted pages, oldest first.
///
/// ```text
///   front                              back
///   | used | gone |  -  |  -  |  -  |  -  |      each new page checks two at the front: used or
///                                                evicted ones are dropped, others requeued
/// ```
///
/// A use of a page is only noticed when its entry is checked. Two checks per page are enough to go
/// round a full queue before it can fill again, and cost little.
///
/// An unused page is evicted in its turn, which makes room here. Where unread pages are protected,
/// streams use their own frames and that turn may never come: the entry then expires after as many
/// evictions as the cache has frames, and the next hint takes its frame.
#[derive(Debug, Default)]
pub(crate) struct HintedFrames {
    unused: VecDeque<(HintedFrame, Generation)>,
    /// Frames that may be filled for the current hint; None for all.
    room: Option<Pages>,
}

/// A frame number and, in its spare bits, the quarter in which it was hinted, modulo 16.
#[derive(Clone, Copy, Debug)]
struct HintedFrame(u32);

impl HintedFrames {
    /// Memory per frame: half of the frames may be queued, in a queue that grows by doubling.
    pub(crate) const BYTES_PER_FRAME: u64 = size_of::<(HintedFrame, Generation)>() as u64;

    /// Returns the most unused hinted pages.
    pub(crate) fn most(cache: &PageCache) -> u64 {
        u64::from(cache.frames()) / HINTS_DENOM
    }

    /// Sets the number of frames that may be filled for the current hint; None for all.
    pub(crate) fn set_room(&mut self, room: Option<Pages>) {
        self.room = room;
    }

    /// Returns true if one more page may be hinted.
    pub(crate) fn have_room(&mut self, cache: &mut PageCache) -> bool {
        if self.room == Some(Pages::ZERO) {
            return false;
        }
        for _ in 0..LOOKS {
            let Some((hinted, generation)) = self.unused.pop_front() else { break };
            let frame = hinted.frame();
            if cache.keeps_unread() && hinted.is_old(cache) {
                continue;
            }
            let entry = cache.page_of(frame).and_then(|(file, page)| cache.look_up(file, page));
            // An entry with another page in its frame is dropped.
            let entry = entry.filter(|entry| entry.generation() == generation);
            if entry.is_some_and(|entry| cache.saw(FlagSeen::Unused, frame, entry.is_unused())) {
                self.unused.push_back((hinted, generation));
            }
        }
        (self.unused.len() as u64) < Self::most(cache)
    }

    pub(crate) fn add(&mut self, filling: &Filling, cache: &PageCache) {
        self.room = self.room.map(|room| room.saturating_sub(Pages(1)));
        assert!((self.unused.len() as u64) < Self::most(cache), "more hints than may be unused");
        self.unused.push_back((HintedFrame::new(filling.frame(), cache), filling.generation()));
    }
}

impl HintedFrame {
    fn new(frame: Frame, cache: &PageCache) -> Self {
        debug_assert!(frame.0 < FRAMES_MAX, "{frame:?} leaves no bits for the quarter");
        Self(frame.0 | quarter(cache) << FRAME_BITS)
    }

    fn frame(self) -> Frame {
        Frame(self.0 & (FRAMES_MAX - 1))
    }

    /// Returns true if enough pages were evicted since the hint that its page would have been, too.
    fn is_old(self, cache: &PageCache) -> bool {
        let since = quarter(cache).wrapping_sub(self.0 >> FRAME_BITS) % QUARTERS;
        since > 4
    }
}

/// Returns how often a quarter of the frames was replaced, modulo the bits available.
fn quarter(cache: &PageCache) -> u32 {
    let quarter = u64::from(cache.frames() / 4).max(1);
    let number = cache.stats().evictions / quarter % u64::from(QUARTERS);
    u32::try_from(number).expect("a number modulo QUARTERS is small")
}

/// Half of the frames for unused hinted pages; the other half is for demand reads.
const HINTS_DENOM: u64 = 2;

const FRAME_BITS: u32 = FRAMES_MAX.trailing_zeros();
const QUARTERS: u32 = 1 << (u32::BITS - FRAME_BITS);
const _: () = assert!(FRAMES_MAX.is_power_of_two() && QUARTERS > 8);

/// Entries checked for each new page.
const LOOKS: usize = 2;
