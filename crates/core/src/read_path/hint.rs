//! Hints: prefetches pages that a caller announces, without consulting a policy. A hint sets no
//! marker, changes no stream and never waits for frames.

use core::ops::Range;

use super::{ReadPath, file_pages};
use crate::ids::{FileId, slot_of};
use crate::page_in::walk::{PageInWalk, Purpose};
use crate::prefetch::hinted_frames::HintedFrames;
use crate::prefetch::walk::PageSet as _;
use crate::sched::Origin;
use crate::units::{Nanos, PageIndex, Pages};

impl ReadPath {
    /// Requests the missing pages among `pages` pages from `start` on, and returns their number.
    pub(crate) fn will_need(
        &mut self,
        now: Nanos,
        file: FileId,
        start: PageIndex,
        pages: Pages,
    ) -> Pages {
        let Some(open) = self.files.get(file).filter(|file| !file.is_closing) else {
            return Pages::ZERO;
        };
        let end = PageIndex(start.0.saturating_add(pages.0)).min(open.end());
        let may_read_ahead = self.reads.frame_line.is_empty();
        if may_read_ahead {
            self.make_room_for_hint(now, file, start, end);
        }
        let Self { files, page_in, prefetch, devices, telemetry, .. } = self;
        let open = files.open_file(file);
        let pages = file_pages(file, open, devices.of_file(open.device));
        let purpose = Purpose::Hint(&mut prefetch.hints);
        let stats = &mut telemetry.stats;
        let mut walk = PageInWalk::new(page_in, stats, pages, purpose, may_read_ahead);
        let requested = walk.fetch(start..end, None);
        let runs = walk.runs;
        devices.add_runs(now, open.device, runs, Origin::default());
        requested
    }

    /// Frees frames for the missing pages. If the cache keeps unread pages, those of live streams
    /// are not evicted for a hint.
    fn make_room_for_hint(&mut self, now: Nanos, file: FileId, start: PageIndex, end: PageIndex) {
        self.prefetch.hints.set_room(None);
        if self.page_in.cache.keeps_unread() {
            let most = HintedFrames::most(&self.page_in.cache);
            debug_assert!(most <= u64::from(self.page_in.cache.frames()), "half of the frames");
            let missing = self.count_missing(file, start..end, most);
            self.prefetch.make_room_for_hint(now, missing, &mut self.page_in.cache);
        }
    }

    /// Returns the number of missing pages in a range, at most `most`.
    fn count_missing(&self, file: FileId, pages: Range<PageIndex>, most: u64) -> Pages {
        let mut missing = 0;
        let mut page = pages.start;
        while page < pages.end && missing < most {
            missing += u64::from(self.page_in.cache.look_up(slot_of(file), page).is_none());
            page = page + Pages(1);
        }
        assert!(missing <= most, "{missing} pages are counted, to at most {most}");
        Pages(missing)
    }
}
