//! The flusher: which dirty pages a device gets next, and what became of them.
//!
//! In:    dirty pages and their age; writes that wait for room; results.
//! Out:   write requests, a run of neighbours each; debts that are paid, tried again, or failed.
//! Never: a second write of a page while one is in flight; more requests than were allowed.
//!
//! ```text
//!   urgent      at once: a flush, a write that waits for the device, a second try
//!   aging       when it is dirty_age old; while more than dirty_background is dirty; while a
//!               writer waits for room, and less than it wants is on its way
//!   failed      the oldest, when a probe is due (refused.rs)
//! ```

use alloc::vec::Vec;

use super::Writeback;
use super::dirty_pages::DirtyList;
use super::refusals::RefusalVerdict;
use crate::device_queue::payload::{IoPayload, WritePage};
use crate::driver_io::Fault;
use crate::files::OpenFile;
use crate::ids::{DeviceId, DirtyId, FileId, slot_of};
use crate::page_in::page_len;
use crate::read_path::ReadPath;
use crate::sched::{Class, Op, Origin, Request};
use crate::units::{
    ByteCount, Nanos, PAGE_SIZE, PageIndex, Pages, SECTOR_SIZE, SECTORS_PER_PAGE, Sectors,
};

/// How a write request ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WriteOutcome {
    /// The device has so many bytes, perhaps in a volatile cache, and not the rest, for this
    /// reason.
    Unstable(ByteCount, Fault),
    /// The device has all of it for good.
    Durable,
    /// Some of it may be gone, because a flush failed meanwhile, in this way.
    Suspect(Fault),
}

/// The result of a file's turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum FileTurn {
    /// A request was queued.
    Sent,
    /// There is something, but not at present.
    Waits,
    /// There is nothing.
    Nothing,
}

impl Writeback {
    /// Queues the write requests that are due. Each file has a turn, until none sends more.
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
    }

    /// When something of the flusher's is due although nothing happens before.
    pub(crate) fn next_write_out(&self, path: &ReadPath) -> Option<Nanos> {
        let has_room = |file: &FileId| {
            let device = path.files.get(*file).and_then(|file| path.devices.get(file.device));
            device.is_some_and(|device| device.flusher_requests < self.settings.queued)
        };
        // Where the device has all that it is allowed, the end of a request comes first.
        self.flusher_line
            .iter()
            .filter(|file| has_room(file))
            .filter_map(|&file| self.due(file))
            .min()
    }

    /// When the first page of the file that ages, or has failed, is due.
    fn due(&self, file: FileId) -> Option<Nanos> {
        let dirty_file = self.files.get(file)?;
        let since = |on| self.dirty.oldest(dirty_file, on).map(|id| self.dirty.get(id).since.0);
        let aged = since(DirtyList::Aging).map(|at| Nanos(at.saturating_add(self.settings.age_ns)));
        aged.into_iter().chain(self.next_probe(file)).min()
    }

    /// Whether pages are written that could still wait.
    pub(super) fn wants_aging(&self) -> bool {
        let is_over = self.dirty.unsent > self.settings.background(self.budget.limit());
        is_over || self.budget_is_wanted() || !self.rewriting.is_empty()
    }

    /// Whether a write waits for more room than device writes will give back.
    fn budget_is_wanted(&self) -> bool {
        let Some(first) = self.budget.first() else { return false };
        let write = self.writes.get(first).expect("it waits");
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
        let state = path.devices.get_mut(device).expect("a file's device outlives it");
        let max = state.geometry.max_io;
        state.flusher_requests += 1;
        let run = self.run_around(path, first, max);
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
        let sectors = Sectors(bytes.0.div_ceil(SECTOR_SIZE));
        let origin = Origin { op: Op::Write, class: Class::BestEffort, submitter };
        let load = IoPayload { writes, is_fua, is_retry, parts: 1, ..IoPayload::default() };
        let request = Request { start, sectors, origin, arrival: now, load };
        path.devices.add_request(now, device, request);
    }

    /// Whether this is the last page of a file that ends between two blocks of its device
    /// ([`Geometry::write_block`](crate::geometry::Geometry::write_block)).
    fn ends_off_block(&self, path: &ReadPath, file: FileId, page: PageIndex) -> bool {
        let file = path.files.used(file);
        let block = path.devices.get(file.device).map_or(1, |it| it.geometry.write_block.0);
        page.offset() + ByteCount(PAGE_SIZE) > file.len && !file.len.0.is_multiple_of(block)
    }

    /// Whether a request for this page is durable: for its writer, or because of where it ends.
    fn needs_fua(&self, path: &ReadPath, id: DirtyId) -> bool {
        let dirty = self.dirty.get(id);
        dirty.is_fua || self.ends_off_block(path, dirty.file, dirty.page)
    }

    /// The page and its neighbours that may be written with it, in the order of the file.
    ///
    /// ```text
    ///   pages    D D D w D D D D . D       D dirty    w being written    . clean
    ///                    |<-P->|
    ///                    a request: to the right first, then to the left, up to the largest, or
    ///                    to what is left to the pages of one that was refused
    /// ```
    fn run_around(&self, path: &ReadPath, first: DirtyId, max: Pages) -> Vec<DirtyId> {
        let dirty = self.dirty.get(first);
        let slot = slot_of(dirty.file);
        let along = |page: PageIndex| {
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
        before
    }

    /// A write request ended: the first pages are written as far as its bytes cover them, and
    /// `refused.rs` decides on the others. Where a flush failed meanwhile, all are written again.
    pub(crate) fn end_writes(
        &mut self,
        path: &mut ReadPath,
        now: Nanos,
        device: DeviceId,
        job: &mut IoPayload,
        outcome: WriteOutcome,
    ) {
        let writes = core::mem::take(&mut job.writes);
        if let Some(state) = path.devices.get_mut(device) {
            state.flusher_requests -= job.parts;
        }
        let (count, mut good) = (writes.len(), 0);
        let mut verdict = None;
        let mut last = None;
        for (at, WritePage { dirty, len, .. }) in writes.into_iter().enumerate() {
            let file = self.dirty.get(dirty).file;
            if last.is_some_and(|last| last != file) {
                last.into_iter().for_each(|last| self.check_flushes(path, last));
            }
            last = Some(file);
            let (bytes, fault) = match outcome {
                WriteOutcome::Durable => (u64::MAX, Fault::Short),
                WriteOutcome::Unstable(bytes, fault) => (bytes.0, fault),
                WriteOutcome::Suspect(fault) => {
                    self.suspect_page(path, now, dirty, fault);
                    continue;
                }
            };
            if bytes >= at as u64 * PAGE_SIZE + u64::from(len) {
                good += 1;
                let is_probe = self.note_taken(file, dirty);
                self.written(path, now, dirty, outcome == WriteOutcome::Durable);
                if is_probe {
                    self.resend_all_failed(file);
                }
                continue;
            }
            match *verdict.get_or_insert_with(|| self.judge_refusal(file, count, good)) {
                RefusalVerdict::Resend(most_pages) => {
                    self.resend_smaller(path, now, dirty, most_pages);
                }
                RefusalVerdict::Fail => self.fail_page(path, now, dirty, fault),
            }
        }
        if let (Some(RefusalVerdict::Fail), WriteOutcome::Unstable(_, fault), Some(file)) =
            (verdict, outcome, last)
        {
            self.fail_unsent(path, now, file, fault);
        }
        last.into_iter().for_each(|last| self.check_flushes(path, last));
    }

    /// The device has the page, for good or not.
    fn written(&mut self, path: &mut ReadPath, now: Nanos, id: DirtyId, is_durable: bool) {
        let dirty = self.dirty.get(id);
        let (frame, is_newest) = (dirty.frame, dirty.other.is_none() && !dirty.is_dropped);
        if is_newest && !is_durable {
            path.page_in.cache.set_unstable(frame);
        }
        self.end_dirty(path, now, id);
        self.wake(path, frame, None);
    }

    /// A flush failed while the page was on its way: it is sent again. Where flushes fail again and
    /// again, as with a FUA write of a bad sector that its client repeats, the waiters are told.
    fn suspect_page(&mut self, path: &mut ReadPath, now: Nanos, id: DirtyId, fault: Fault) {
        let dirty = self.dirty.get_mut(id);
        dirty.suspicions += 1;
        let most_pages = dirty.most_pages;
        if dirty.suspicions < SUSPICIONS_MAX {
            self.resend_smaller(path, now, id, most_pages);
        } else {
            dirty.suspicions = 0;
            self.fail_page(path, now, id, fault);
        }
    }

    /// The device has not got the page in this request: it is sent again, with fewer others.
    fn resend_smaller(&mut self, path: &mut ReadPath, now: Nanos, id: DirtyId, most_pages: u8) {
        path.telemetry.stats.write_retries += 1;
        let dirty = self.dirty.get_mut(id);
        dirty.most_pages = most_pages;
        let (file, frame, newer) = (dirty.file, dirty.frame, dirty.other);
        if dirty.is_dropped {
            self.end_dirty(path, now, id);
            return;
        }
        dirty.since = now;
        let dirty_file = self.files.get_mut(file).expect("a dirty page is counted by its file");
        let Some(newer) = newer else {
            self.dirty.put(dirty_file, id, DirtyList::Urgent);
            self.list_file(file);
            return;
        };
        // What waits for these bytes waits for the newer ones instead.
        self.dirty.inherit(dirty_file, id, newer);
        let heir = self.dirty.get_mut(newer);
        if heir.is_fua && heir.is_locked {
            // The zero that waits for this one waits for that one instead.
            (heir.is_locked, heir.is_awaited) = (false, true);
            self.dirty.get_mut(id).is_awaited = false;
        }
        path.page_in.waiters.move_to(frame, self.dirty.get(newer).frame);
        self.end_dirty(path, now, id);
    }

    /// The device has not got the page: it stays dirty, and all that wait for it are told.
    ///
    /// ```text
    ///   it has newer bytes    they are written in their turn, for the flushes that come later
    ///   a zero waits for it   it is held: the zero may make good what the write could not
    ///   else                  it has failed, until it is sent again
    /// ```
    fn fail_page(&mut self, path: &mut ReadPath, now: Nanos, id: DirtyId, fault: Fault) {
        path.telemetry.stats.pages_write_failed += 1;
        self.last_fault = fault;
        let dirty = self.dirty.get_mut(id);
        let (file, page, frame, flush_seq) = (dirty.file, dirty.page, dirty.frame, dirty.flush_seq);
        if dirty.is_dropped {
            self.end_dirty(path, now, id);
            return;
        }
        dirty.since = now;
        let is_awaited = dirty.other.is_none() && core::mem::take(&mut dirty.is_awaited);
        let has_newer = dirty.other.is_some();
        let dirty_file = self.files.get_mut(file).expect("a dirty page is counted by its file");
        if has_newer {
            Self::fail_waiting_flushes(&mut self.writes, dirty_file, flush_seq, fault);
            self.end_dirty(path, now, id);
        } else if is_awaited {
            let dirty = self.dirty.get_mut(id);
            (dirty.is_locked, dirty.is_urgent) = (true, true);
            self.dirty.put(dirty_file, id, DirtyList::Held);
            self.end_awaited(path, file, page);
        } else {
            // Its writer is told: what follows is covered by flushes.
            self.dirty.get_mut(id).is_fua = false;
            self.dirty.put_failed(dirty_file, id, fault);
            self.plan_probe(now, file, fault);
        }
        self.wake(path, frame, Some(fault));
        self.list_file(file);
    }

    /// Ends a dirty in a request: its frame is the cache's alone, and newer bytes of the page may
    /// be written now.
    fn end_dirty(&mut self, path: &mut ReadPath, now: Nanos, id: DirtyId) {
        let dirty = self.dirty.get(id);
        let (file, page, newer) = (dirty.file, dirty.page, dirty.other);
        let (is_awaited, is_dropped) = (dirty.is_awaited, dirty.is_dropped);
        if !is_dropped {
            let dirty_file = self.files.get_mut(file).expect("a dirty page is counted by its file");
            self.dirty.settle(dirty_file, id);
        }
        let frame = self.dirty.remove(id);
        path.page_in.cache.release(frame);
        self.budget.release(1);
        if let Some(newer) = newer {
            self.dirty.get_mut(newer).other = None;
            self.dirty.get_mut(newer).since = now;
            self.unhold(now, newer);
        }
        if is_awaited {
            self.end_awaited(path, file, page);
        }
    }

    /// A dirty that is held may be written now, unless something else still holds it.
    pub(super) fn unhold(&mut self, now: Nanos, id: DirtyId) {
        let dirty = self.dirty.get_mut(id);
        if dirty.is_locked || dirty.other.is_some() || dirty.on != DirtyList::Held {
            return;
        }
        dirty.since = now;
        let (file, on) =
            (dirty.file, if dirty.is_urgent { DirtyList::Urgent } else { DirtyList::Aging });
        let dirty_file = self.files.get_mut(file).expect("a file outlives its dirty pages");
        self.dirty.put(dirty_file, id, on);
        self.list_file(file);
    }

    /// The page's bytes are not wanted any more: no flush waits for them. If they are in a request,
    /// that ends as it will.
    pub(crate) fn drop_dirty(&mut self, path: &mut ReadPath, id: DirtyId, fault: Option<Fault>) {
        let dirty = self.dirty.get(id);
        let (file, frame, other, on) = (dirty.file, dirty.frame, dirty.other, dirty.on);
        let dirty_file = self.files.get_mut(file).expect("a dirty page is counted by its file");
        self.dirty.settle(dirty_file, id);
        if let Some(other) = other {
            self.dirty.get_mut(other).other = None;
        }
        if on == DirtyList::Writing {
            let dirty = self.dirty.get_mut(id);
            (dirty.is_dropped, dirty.is_awaited, dirty.other) = (true, false, None);
        } else {
            self.dirty.remove(id);
            path.page_in.cache.release(frame);
            self.budget.release(1);
        }
        self.wake(path, frame, fault);
    }

    /// Puts a file in the flusher's line if it has something there, now or later.
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

/// So often a page is on its way while a flush fails before its waiters are told.
const SUSPICIONS_MAX: u8 = 8;

/// Nothing is due.
pub(crate) const NEVER: Nanos = Nanos(u64::MAX);
