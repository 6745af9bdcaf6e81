//! The flusher: selects the dirty pages to write next, and merges neighbours into requests. It
//! never writes a page that is in flight already, and keeps to the limit of requests.
//!
//! ```text
//!   urgent      at once: a flush, a write that waits for the device, a retry
//!   aging       when it is dirty_age old; while more than dirty_background is dirty; while a
//!               writer waits for more budget than the writes in flight will release
//!   failed      the oldest, when a probe is due (refused.rs)
//! ```

use alloc::vec::Vec;

use super::Writeback;
use super::dirty_page::DirtyList;
use crate::device_queue::payload::{IoPayload, WritePage};
use crate::files::OpenFile;
use crate::ids::{DeviceId, DirtyId, FileId, slot_of};
use crate::page_in::page_len;
use crate::read_path::ReadPath;
use crate::sched::{Class, Op, Origin, Request};
use crate::units::{
    ByteCount, MAX_FILE_PAGES, Nanos, PAGE_SIZE, PageIndex, Pages, SECTOR_SIZE, SECTORS_PER_PAGE,
    Sectors,
};

/// Result of a file's turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum FileTurn {
    /// A request was queued.
    Sent,
    /// Its pages are not due at present.
    Waits,
    /// It has no pages for the flusher.
    Nothing,
}

impl Writeback {
    /// Queues the write requests that are due. Files take turns until none sends more.
    pub(crate) fn write_out(&mut self, path: &mut ReadPath, now: Nanos) {
        if self.dirty.urgent == 0 && !self.wants_aging() && now < self.next_due {
            return;
        }
        let mut idle = 0;
        while idle < self.flusher_line.len() {
            let Some(file) = self.flusher_line.pop_front() else { return };
            match self.take_turn(path, now, file) {
                FileTurn::Sent => idle = 0,
                FileTurn::Waits => idle += 1,
                FileTurn::Nothing => {
                    let dirty_file = self.files.get_mut(file);
                    if let Some(dirty_file) = dirty_file {
                        dirty_file.is_listed = false;
                    }
                    continue;
                }
            }
            self.flusher_line.push_back(file);
        }
        let next = self.flusher_line.iter().filter_map(|&file| self.due(file)).min();
        self.next_due = next.unwrap_or(NEVER);
        debug_assert!(
            self.dirty.urgent == 0 || !self.flusher_line.is_empty(),
            "a file with urgent pages is in line"
        );
    }

    /// Returns the time at which the flusher has work even if nothing else happens.
    pub(crate) fn next_write_out(&self, path: &ReadPath) -> Option<Nanos> {
        let has_room = |file: &FileId| {
            let device = path.files.get(*file).and_then(|file| path.devices.get(file.device));
            device.is_some_and(|device| device.flusher_requests < self.settings.queued)
        };
        // If a device has all the requests it may have, the end of one comes first.
        self.flusher_line
            .iter()
            .filter(|file| has_room(file))
            .filter_map(|&file| self.due(file))
            .min()
    }

    /// Returns the time at which the file's first aging or failed page is due.
    fn due(&self, file: FileId) -> Option<Nanos> {
        let dirty_file = self.files.get(file)?;
        let since = |on| self.dirty.oldest(dirty_file, on).map(|id| self.dirty.get(id).since.0);
        let aged = since(DirtyList::Aging).map(|at| Nanos(at.saturating_add(self.settings.age_ns)));
        aged.into_iter().chain(self.next_probe(file)).min()
    }

    /// Returns true if aging pages are to be written before they are old.
    pub(super) fn wants_aging(&self) -> bool {
        let is_over = self.dirty.unsent > self.settings.background(self.budget.limit());
        is_over || self.budget_is_wanted() || !self.rewriting.is_empty()
    }

    /// Returns true if a write waits for more budget than the writes in flight will release.
    fn budget_is_wanted(&self) -> bool {
        let Some(first) = self.budget.first() else { return false };
        let write = self.writes.get(first).expect("a write that waits for budget is not over");
        self.dirty.writing < (write.pages.end - write.pages.start).0
    }

    fn take_turn(&mut self, path: &mut ReadPath, now: Nanos, file: FileId) -> FileTurn {
        let (limit, age_ns) = (self.settings.queued, self.settings.age_ns);
        let wants_aging = self.wants_aging();
        let Some(dirty_file) = self.files.get_mut(file) else { return FileTurn::Nothing };
        if !dirty_file.has_work() {
            return FileTurn::Nothing;
        }
        let device = path.files.used(file).device;
        if path.devices.get(device).is_none_or(|device| device.flusher_requests >= limit) {
            return FileTurn::Waits;
        }
        self.probe(now, file);
        let Some(dirty_file) = self.files.get(file) else {
            return FileTurn::Nothing;
        };
        let is_old = |id| self.dirty.get(id).since.0.saturating_add(age_ns) <= now.0;
        let aging = self.dirty.oldest(dirty_file, DirtyList::Aging);
        let aging = aging.filter(|&id| wants_aging || is_old(id));
        let Some(first) = self.dirty.oldest(dirty_file, DirtyList::Urgent).or(aging) else {
            return FileTurn::Waits;
        };
        self.send(path, now, device, first);
        FileTurn::Sent
    }

    /// Queues a request for this page and its neighbours.
    fn send(&mut self, path: &mut ReadPath, now: Nanos, device: DeviceId, first: DirtyId) {
        let state = path.devices.get_mut(device).expect("a device with open files is not removed");
        let max = state.geometry.max_io;
        assert!(state.flusher_requests < self.settings.queued, "{device:?} has all it is allowed");
        state.flusher_requests += 1;
        let run = self.run_around(path, first, max);
        debug_assert!(run.contains(&first), "the page that is due is part of its request");
        let dirty = self.dirty.get(first);
        let (file, submitter, is_fua) = (dirty.file, dirty.submitter, self.needs_fua(path, first));
        let OpenFile { len: file_len, location, .. } = path.files.used(file);
        let dirty_file = self.files.get_mut(file).expect("a dirty page is counted by its file");
        let mut writes = Vec::with_capacity(run.len());
        let (mut bytes, mut is_retry) = (ByteCount::ZERO, false);
        let start = location.start() + Sectors(self.dirty.get(run[0]).page.0 * SECTORS_PER_PAGE);
        for dirty in run {
            let (page, frame) = (self.dirty.get(dirty).page, self.dirty.get(dirty).frame);
            let len = page_len(*file_len, page);
            bytes += ByteCount(u64::from(len));
            is_retry |= self.dirty.get(dirty).most_pages != 0;
            writes.push(WritePage { dirty, frame, len });
            self.dirty.put(dirty_file, dirty, DirtyList::Writing);
        }
        assert!((writes.len() as u64) <= max.0, "a request is no larger than the device takes");
        let sectors = Sectors(bytes.0.div_ceil(SECTOR_SIZE));
        let origin = Origin { op: Op::Write, class: Class::BestEffort, submitter };
        let load = IoPayload { writes, is_fua, is_retry, parts: 1, ..IoPayload::default() };
        let request = Request { start, sectors, origin, arrival: now, load };
        path.devices.add_request(now, device, request);
    }

    /// Returns true if this is the last page of a file whose end is not on a block boundary of its
    /// device ([`Geometry::write_block`](crate::geometry::Geometry::write_block)).
    fn ends_off_block(&self, path: &ReadPath, file: FileId, page: PageIndex) -> bool {
        let file = path.files.used(file);
        let block = path.devices.get(file.device).map_or(1, |it| it.geometry.write_block.0);
        page.offset() + ByteCount(PAGE_SIZE) > file.len && !file.len.0.is_multiple_of(block)
    }

    /// Returns true if the page needs a FUA request, for its writer or because of the file's end.
    fn needs_fua(&self, path: &ReadPath, id: DirtyId) -> bool {
        let dirty = self.dirty.get(id);
        dirty.is_fua || self.ends_off_block(path, dirty.file, dirty.page)
    }

    /// Returns the page and its neighbours that may be written with it, in the order of the file.
    ///
    /// ```text
    ///   pages    D D D w D D D D . D       D dirty    w being written    . clean
    ///                    |<-P->|
    ///                    a request: to the right first, then to the left, up to the largest, or
    ///                    to the page limit of one that was refused
    /// ```
    fn run_around(&self, path: &ReadPath, first: DirtyId, max: Pages) -> Vec<DirtyId> {
        let dirty = self.dirty.get(first);
        assert!(dirty.other.is_none(), "{first:?} waits for its older bytes");
        let slot = slot_of(dirty.file);
        let along = |page: PageIndex| {
            if page.0 >= MAX_FILE_PAGES.0 {
                // The longest file has no page behind its last one.
                return None;
            }
            let id = self.dirty.of(path.page_in.cache.look_up(slot, page)?.frame())?;
            let other = self.dirty.get(id);
            let may_go = matches!(other.on, DirtyList::Aging | DirtyList::Urgent);
            (may_go && self.needs_fua(path, id) == self.needs_fua(path, first)).then_some(id)
        };
        let most = |id| match self.dirty.get(id).most_pages {
            0 => max.0,
            most => max.0.min(u64::from(most)),
        };
        let mut max = most(first);
        let mut fits = |len: usize, id: DirtyId| {
            let fits = (len as u64) < max.min(most(id));
            max = if fits { max.min(most(id)) } else { max };
            fits
        };
        let mut run = Vec::from([first]);
        let mut page = dirty.page;
        while let Some(id) = along(page + Pages(1))
            && fits(run.len(), id)
        {
            run.push(id);
            page = page + Pages(1);
        }
        let mut before = Vec::new();
        let mut page = dirty.page;
        while page.0 > 0
            && let Some(id) = along(PageIndex(page.0 - 1))
            && fits(run.len() + before.len(), id)
        {
            before.push(id);
            page = PageIndex(page.0 - 1);
        }
        before.reverse();
        before.append(&mut run);
        debug_assert!(
            before.windows(2).all(|two| self.page_of(two[0]) + Pages(1) == self.page_of(two[1])),
            "a request is for neighbours"
        );
        before
    }

    /// Adds a file to the flusher's line if it has pages to write, now or later.
    pub(super) fn list_file(&mut self, file: FileId) {
        let Some(dirty_file) = self.files.get_mut(file) else { return };
        if !dirty_file.is_listed && dirty_file.has_work() {
            dirty_file.is_listed = true;
            self.flusher_line.push_back(file);
        }
        if let Some(due) = self.due(file) {
            self.next_due = self.next_due.min(due);
        }
    }
}

/// No page is due.
pub(crate) const NEVER: Nanos = Nanos(u64::MAX);
