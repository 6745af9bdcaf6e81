//! Pages that a caller says it will need: asked for by name, not by a policy.
//!
//! In:    a range of a file.
//! Out:   requests for what of it is not resident, as for pages ahead; how many pages that is.
//! Never: a marker, a stream's state, a wait for frames; more than half of the frames for unused
//!        hinted pages.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use super::fetching::PageInWalk;
use super::{FileId, IoPath, OpenFile};
use crate::cache::{Filling, PageCache};
use crate::prefetch::walk::PageSet as _;
use crate::replay::{FlagSeen, PathCall, PathOutput};
use crate::sched::Origin;
use crate::table::{FRAMES_MAX, FileSlot, Frame, Generation};
use crate::units::{Nanos, PageIndex, Pages};

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
pub(super) struct HintedFrames {
    unused: VecDeque<(HintedFrame, Generation)>,
    /// How many frames may be filled for the present hint; None: as many as there are.
    room: Option<Pages>,
}

/// A frame, and in the bits that its number leaves: in which quarter it was hinted, modulo 16.
#[derive(Clone, Copy, Debug)]
struct HintedFrame(u32);

impl HintedFrames {
    /// What each frame costs here: half of the frames may be in line, in a line that doubles.
    pub(super) const BYTES_PER_FRAME: u64 = size_of::<(HintedFrame, Generation)>() as u64;

    /// Whether one more page may be hinted.
    pub(super) fn have_room(&mut self, cache: &mut PageCache) -> bool {
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
            if entry
                .is_some_and(|entry| cache.log().saw(FlagSeen::Unused, frame, entry.is_unused()))
            {
                self.unused.push_back((hinted, generation));
            }
        }
        (self.unused.len() as u64) < u64::from(cache.frames()) / SHARE_OF_HINTS
    }

    pub(super) fn add(&mut self, filling: &Filling, cache: &PageCache) {
        self.room = self.room.map(|room| room.saturating_sub(Pages(1)));
        self.unused.push_back((HintedFrame::new(filling.frame(), cache), filling.generation()));
    }
}

impl HintedFrame {
    fn new(frame: Frame, cache: &PageCache) -> Self {
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
    u32::try_from(number).expect("it is small")
}

impl IoPath {
    /// Asks the device for those of `pages` pages from `start` on that are not resident, and
    /// returns how many those are. A read that comes later finds them, or joins them.
    ///
    /// Pages past the end of the file are left out; so is the rest of a hint when half of the
    /// frames hold unused hinted pages, or when reads wait for frames. Of a closed
    /// file: nothing.
    pub fn will_need(&mut self, now: Nanos, file: FileId, start: PageIndex, pages: Pages) -> Pages {
        self.log().did(|| PathCall::WillNeed { now, file, start, pages });
        let asked = self.fetch_hint(now, file, start, pages);
        self.log().gave(|| PathOutput::Asked(asked));
        asked
    }

    /// Makes room for those of the pages that are not resident: where unread pages are kept, those
    /// of live streams are not for a hint.
    fn make_room_for_hint(&mut self, now: Nanos, file: FileId, pages: Range<PageIndex>) {
        self.hints.room = None;
        if !self.cache.keeps_unread() {
            return;
        }
        let Self { cache, shares, files, hints, .. } = self;
        let most = u64::from(cache.frames()) / SHARE_OF_HINTS;
        let mut missing = 0;
        let mut page = pages.start;
        while page < pages.end && missing < most {
            missing += u64::from(cache.look_up(Self::slot(file), page).is_none());
            page = page + Pages(1);
        }
        let is_live = |file: FileSlot, page| {
            let is_live = |share| shares.is_live(now, share);
            files.at(file.0).is_some_and(|file| file.remembered.has_ahead(page, is_live))
        };
        hints.room = Some(cache.reclaim(Pages(missing), is_live));
    }

    fn fetch_hint(&mut self, now: Nanos, file: FileId, start: PageIndex, pages: Pages) -> Pages {
        let open = self.files.get(file).filter(|file| !file.is_closing);
        let Some(&OpenFile { len, device, .. }) = open else { return Pages::ZERO };
        let file_end = PageIndex(len.pages_up().0);
        let end = PageIndex(start.0.saturating_add(pages.0)).min(file_end);
        let geometry = self.devices.get(device).expect("a file's device outlives it").geometry;
        if self.queued.is_empty() {
            self.make_room_for_hint(now, file, start..end);
        }
        let place = &self.files.get(file).expect("it is open").place;
        let mut runs = Vec::new();
        let mut fetching = PageInWalk {
            cache: &mut self.cache,
            waiters: &mut self.waiters,
            stats: &mut self.stats,
            runs: &mut runs,
            file: Self::slot(file),
            parts: &mut self.parts,
            place,
            near: 0,
            file_len: len,
            max_io: geometry.max_io,
            may_read_ahead: self.queued.is_empty(),
            no_reuse: false,
            hints: Some(&mut self.hints),
            law: None,
            cut_at: None,
            wanted: None,
        };
        let asked = fetching.fetch(start..end, None);
        self.queue(now, device, runs, Origin::default());
        asked
    }
}

/// Unused hinted pages may hold half of the frames: the other half is for reads that wait.
const SHARE_OF_HINTS: u64 = 2;

const FRAME_BITS: u32 = FRAMES_MAX.trailing_zeros();
const QUARTERS: u32 = 1 << (u32::BITS - FRAME_BITS);
const _: () = assert!(FRAMES_MAX.is_power_of_two() && QUARTERS > 8);

/// How many hinted pages are looked at for each new one.
const LOOKS: usize = 2;
