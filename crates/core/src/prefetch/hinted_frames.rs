//! Pages that a caller says it will need: asked for by name, not by a policy.
//!
//! In:    a range of a file.
//! Out:   requests for what of it is not resident, as for pages ahead; how many pages that is.
//! Never: a marker, a stream's state, a wait for frames; more than half of the frames for unused
//!        hinted pages.

use alloc::collections::VecDeque;

use crate::cache::{Filling, FlagSeen, PageCache};

use crate::table::{FRAMES_MAX, Frame, Generation};
use crate::units::Pages;

/// The frames of hinted pages, oldest first.
///
/// ```text
///   front                              back
///   | used | gone |  -  |  -  |  -  |  -  |      each new page looks at two at the front:
///                                                used or gone: forgotten; else to the back
/// ```
///
/// A use of a page does not come here, so it is only noticed when the page is looked at. Two looks
/// a page are enough to go round a full line before it can fill again, and cost little.
///
/// A page that is not used leaves in its turn, and makes room here. Where unread pages are kept,
/// streams live in frames of their own and its turn may never come: there it makes room when as
/// many pages have left the cache as it has frames. Its own frame is the next hint's then.
#[derive(Debug, Default)]
pub(crate) struct HintedFrames {
    unused: VecDeque<(HintedFrame, Generation)>,
    /// How many frames may be filled for the present hint; None: as many as there are.
    room: Option<Pages>,
}

/// A frame, and in the bits that its number leaves: in which quarter it was hinted, modulo 16.
#[derive(Clone, Copy, Debug)]
struct HintedFrame(u32);

impl HintedFrames {
    /// What each frame costs here: half of the frames may be in line, in a line that doubles.
    pub(crate) const BYTES_PER_FRAME: u64 = size_of::<(HintedFrame, Generation)>() as u64;

    /// How many pages may be hinted at a time.
    pub(crate) fn most(cache: &PageCache) -> u64 {
        u64::from(cache.frames()) / HINTS_DENOM
    }

    /// Sets how many frames may be filled for the present hint; None: as many as there are.
    pub(crate) fn set_room(&mut self, room: Option<Pages>) {
        self.room = room;
    }

    /// Whether one more page may be hinted.
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
            // One that holds another page by now is forgotten, whatever became of that.
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

    /// Whether so many pages have left since it was hinted that it would have left, too.
    fn is_old(self, cache: &PageCache) -> bool {
        let since = quarter(cache).wrapping_sub(self.0 >> FRAME_BITS) % QUARTERS;
        since > 4
    }
}

/// How often a quarter of the frames has changed hands, as far as there is room to note it.
fn quarter(cache: &PageCache) -> u32 {
    let quarter = u64::from(cache.frames() / 4).max(1);
    let number = cache.stats().evictions / quarter % u64::from(QUARTERS);
    u32::try_from(number).expect("a number modulo QUARTERS is small")
}

/// Unused hinted pages may hold half of the frames: the other half is for reads that wait.
const HINTS_DENOM: u64 = 2;

const FRAME_BITS: u32 = FRAMES_MAX.trailing_zeros();
const QUARTERS: u32 = 1 << (u32::BITS - FRAME_BITS);
const _: () = assert!(FRAMES_MAX.is_power_of_two() && QUARTERS > 8);

/// How many hinted pages are looked at for each new one.
const LOOKS: usize = 2;
