//! Planned reads: pages whose requests the caller has planned, read without a policy. Each becomes
//! one request for its missing pages, without read-ahead or markers, and is never merged. The pages
//! in flight stay within the budget of all planned reads, unless a single read exceeds it.
//!
//! ```text
//!   begin --> queue for budget --> queue for frames --> in flight --> ready
//!                 ^  first come, first served               |
//!                 '------- budget is returned --------------'
//! ```

use alloc::collections::VecDeque;

use super::{ReadPath, file_pages};
use crate::ids::{FileId, ReadId, Waiter, slot_of};
use crate::page_in::read::{PageRead, ReadFrames};
use crate::page_in::walk::{PageInWalk, Purpose};
use crate::prefetch::Advice;
use crate::prefetch::walk::{PageMet, PageSet as _, ReadPages, visit};
use crate::sched::Origin;
use crate::units::{ByteCount, Nanos, PageIndex, Pages};

/// Planned reads that wait for budget, and the budget in use.
#[derive(Debug, Default)]
pub(crate) struct PlannedReads {
    /// First come, first served.
    pub(super) line: VecDeque<ReadId>,
    in_flight: Pages,
}

impl PlannedReads {
    /// Takes budget for `pages` pages if `limit` allows it. A single read is always allowed.
    fn take(&mut self, pages: Pages, limit: Pages) -> bool {
        let in_flight = self.in_flight + pages;
        let has_room = in_flight <= limit || self.in_flight == Pages::ZERO;
        if has_room {
            self.in_flight = in_flight;
        }
        has_room
    }

    /// Returns the first read in the queue, unless the budget is used up.
    fn first(&self, limit: Pages) -> Option<ReadId> {
        self.line.front().copied().filter(|_| self.in_flight < limit)
    }

    pub(super) fn give_back(&mut self, pages: Pages) {
        assert!(pages <= self.in_flight, "{pages:?} of {:?} come back", self.in_flight);
        self.in_flight = Pages(self.in_flight.0 - pages.0);
    }
}

impl ReadPath {
    /// Returns the limit of pages that all planned reads may have in flight.
    pub(crate) fn planned_budget(&self) -> Pages {
        Pages(u64::from(self.page_in.cache.frames()) / PLANNED_DENOM).max(Pages(1))
    }

    /// Returns the pages of planned reads that are in flight or wait for frames.
    pub(crate) fn planned_in_flight(&self) -> Pages {
        self.reads.planned.in_flight
    }

    /// Begins a planned read of these pages.
    pub(crate) fn begin_planned(
        &mut self,
        now: Nanos,
        file: FileId,
        pages: core::ops::Range<PageIndex>,
    ) -> ReadId {
        assert!(pages.start < pages.end, "a read asks for at least one page");
        let state = self.files.get_mut(file).expect("the caller names a file that is not gone");
        assert!(!state.is_closing, "{file:?} is closed");
        state.reads += 1;
        let file_len = state.len;
        let count = (pages.end - pages.start).min(self.prefetch.largest_read());
        let (pos, requested) = (pages.start.offset(), (pages.start + count).offset());
        let read = PageRead {
            stream: None,
            file,
            pos,
            requested: requested - pos,
            len: ByteCount::ZERO,
            count,
            prev_pos: None,
            began: now,
            frames: ReadFrames::default(),
            budget: Pages::ZERO,
            fault: None,
            least_len: self.reads.least_len_of(file),
        };
        let (id, is_over) = self.add_read(now, read, file_len);
        if !is_over {
            self.reads.planned.line.push_back(id);
            self.grant_planned(now);
        }
        id
    }

    /// Starts planned reads in order of arrival while budget is left. One that lacks frames then
    /// joins the common queue for frames.
    pub(crate) fn grant_planned(&mut self, now: Nanos) {
        let limit = self.planned_budget();
        while let Some(id) = self.reads.planned.first(limit) {
            let missing = self.count_missing_of(id);
            if !self.reads.planned.take(missing, limit) {
                return;
            }
            self.reads.planned.line.pop_front();
            self.reads.get_mut(id).budget = missing;
            if !self.try_start(now, id, self.reads.frame_line.is_empty()) {
                self.telemetry.stats.waited_for_frames += 1;
                self.reads.frame_line.push_back(Waiter::Read(id));
            }
        }
    }

    /// Returns the number of missing pages of a queued read.
    fn count_missing_of(&self, id: ReadId) -> Pages {
        let read = self.reads.get(id).expect("a queued read is not released");
        let (slot, pages) = (slot_of(read.file), read.frames.pages.clone());
        let is_missing = |page: &u64| self.page_in.cache.look_up(slot, PageIndex(*page)).is_none();
        Pages((pages.start.0..pages.end.0).filter(is_missing).count() as u64)
    }

    /// Walks a planned read through its pages, and queues requests for the missing ones.
    pub(super) fn walk_planned(&mut self, now: Nanos, id: ReadId) {
        let Self { files, page_in, devices, reads, telemetry, .. } = self;
        let read = reads.get_mut(id);
        let (file, first, count) = (read.file, read.frames.pages.start, read.count);
        let open = files.open_file(file);
        let pages = file_pages(file, open, devices.of_file(open.device));
        let (file_end, end) = (open.end(), (first + count).min(open.end()));
        let purpose = Purpose::Read(&mut read.frames);
        let mut walk = PageInWalk::new(page_in, &mut telemetry.stats, pages, purpose, false);
        let all = ReadPages { first, count, file_end, advice: Advice::Random };
        visit(&mut walk, all, |walk, met, page, _| {
            if met == PageMet::Missing {
                walk.fetch(page..end, None);
            }
        });
        let PageInWalk { mut runs, joined, .. } = walk;
        for (page, frame) in joined {
            devices.promote(now, open.device, pages, page, frame);
        }
        for run in &mut runs {
            run.job.is_planned = true;
        }
        devices.add_runs(now, open.device, runs, Origin::default());
    }

    /// Cancels a read that waits for budget or frames. A read that has started continues.
    pub(crate) fn cancel_read(&mut self, id: ReadId) {
        if self.reads.get(id).is_some() && self.reads.is_queued(id) {
            self.reads.frame_line.retain(|&other| other != Waiter::Read(id));
            self.reads.planned.line.retain(|&other| other != id);
            self.end_unstarted(id);
        }
    }
}

/// Planned reads may have a quarter of the frames in flight, as much as two of the largest reads.
/// This leaves frames for four more.
const PLANNED_DENOM: u64 = 4;
