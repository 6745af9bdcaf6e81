//! Invariants between files, reads, frames and requests, checked by tests after each call.

use super::ReadPath;
use crate::ids::Waiter;

impl ReadPath {
    /// Checks that the parts of the read path agree.
    pub(crate) fn assert_consistent(&self) {
        self.page_in.cache.assert_consistent();
        self.devices.assert_consistent();
        self.prefetch.assert_consistent();
        self.files.assert_consistent();
        self.assert_reads();
    }

    /// Checks that each read is queued, waits for frames, or is ready, and is counted by its file.
    fn assert_reads(&self) {
        for (id, read) in self.reads.reads.iter() {
            let frames = &read.frames;
            let is_queued = self.reads.is_queued(id);
            assert!(!is_queued || frames.frames.is_empty(), "{id:?} is in line with frames");
            assert!(!is_queued || !read.is_over(), "{id:?} is in line and covers nothing");
            assert!(!is_queued || frames.outstanding == 0, "{id:?} is in line and waits");
            let pages = frames.pages.end - frames.pages.start;
            let has_all = frames.frames.len() as u64 == pages.0;
            assert!(is_queued || read.is_over() || has_all, "{id:?} has a frame for each page");
            assert!(pages <= self.prefetch.largest_read(), "{id:?} has {pages:?} pages");
            for &frame in &frames.frames {
                assert!(self.page_in.cache.is_held(frame), "{id:?} holds {frame:?}");
            }
            let file = self.files.used(read.file);
            let of_file = |other: &&crate::page_in::read::PageRead| other.file == read.file;
            let count = self.reads.reads.iter().map(|(_, it)| it).filter(of_file).count();
            assert!(file.reads as usize == count, "{:?} counts its reads", read.file);
        }
        let budgets = self.reads.reads.iter().map(|(_, read)| read.budget.0).sum::<u64>();
        assert!(self.planned_in_flight().0 == budgets, "planned reads have {budgets} pages");
        for waiter in &self.reads.frame_line {
            let is_there = match waiter {
                Waiter::Read(id) => self.reads.get(*id).is_some(),
                Waiter::Write(_) => true,
            };
            assert!(is_there, "{waiter:?} waits for frames and was released");
        }
    }
}
