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

use super::debts::{DirtyId, DirtyList};
use super::refused::RefusalVerdict;
use crate::path::fetching::page_len;
use crate::path::job::IoPayload;
use crate::path::{DeviceId, Fault, FileId, IoPath, OpenFile};
use crate::sched::{Class, Op, Origin, Request};
use crate::table::Frame;
use crate::units::{
    ByteCount, Nanos, PAGE_SIZE, PageIndex, Pages, SECTOR_SIZE, SECTORS_PER_PAGE, Sectors,
};

/// One page of a write request.
#[derive(Debug, Eq, PartialEq)]
pub(in crate::path) struct WritePage {
    pub(in crate::path) debt: DirtyId,
    pub(in crate::path) frame: Frame,
    /// How many of its bytes the file has: all of them, but for a file's last page.
    pub(in crate::path) len: u32,
}

/// How a write request ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::path) enum WriteOutcome {
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

impl IoPath {
    /// Queues the write requests that are due. Each file has a turn, until none sends more.
    pub(in crate::path) fn write_out(&mut self, now: Nanos) {
        if self.debts.urgent == 0 && !self.wants_aging() && now < self.next_due {
            return;
        }
        let mut idle = 0;
        while idle < self.owing.len() {
            let Some(file) = self.owing.pop_front() else { return };
            match self.take_turn(now, file) {
                FileTurn::Sent => idle = 0,
                FileTurn::Waits => idle += 1,
                FileTurn::Nothing => {
                    let books = self.files.get_mut(file).and_then(|file| file.debts.as_mut());
                    if let Some(books) = books {
                        books.is_listed = false;
                    }
                    continue;
                }
            }
            self.owing.push_back(file);
        }
        let next = self.owing.iter().filter_map(|&file| self.due(file)).min();
        self.next_due = next.unwrap_or(NEVER);
    }

    /// When something of the flusher's is due although nothing happens before.
    pub(in crate::path) fn next_write_out(&self) -> Option<Nanos> {
        let has_room = |file: &FileId| {
            let device = self.files.get(*file).and_then(|file| self.devices.get(file.device));
            device.is_some_and(|device| device.writes < self.limits.queued)
        };
        // Where the device has all that it is allowed, the end of a request comes first.
        self.owing.iter().filter(|file| has_room(file)).filter_map(|&file| self.due(file)).min()
    }

    /// When the first page of the file that ages, or has failed, is due.
    fn due(&self, file: FileId) -> Option<Nanos> {
        let books = self.files.get(file)?.debts.as_ref()?;
        let since = |on| self.debts.oldest(books, on).map(|id| self.debts.get(id).since.0);
        let aged = since(DirtyList::Aging).map(|at| Nanos(at.saturating_add(self.limits.age_ns)));
        aged.into_iter().chain(self.next_probe(file)).min()
    }

    /// Whether pages are written that could still wait.
    pub(super) fn wants_aging(&self) -> bool {
        let is_over = self.debts.unsent > self.limits.background(self.room.limit());
        is_over || self.room_is_wanted() || !self.rewriting.is_empty()
    }

    /// Whether a write waits for more room than device writes will give back.
    fn room_is_wanted(&self) -> bool {
        let Some(first) = self.room.first() else { return false };
        let write = self.writes.get(first).expect("it waits");
        self.debts.writing < (write.pages.end - write.pages.start).0
    }

    fn take_turn(&mut self, now: Nanos, file: FileId) -> FileTurn {
        let (limit, age_ns) = (self.limits.queued, self.limits.age_ns);
        let wants_aging = self.wants_aging();
        let Some(OpenFile { debts: Some(books), device, .. }) = self.files.get_mut(file) else {
            return FileTurn::Nothing;
        };
        if !books.has_work() {
            return FileTurn::Nothing;
        }
        let device = *device;
        if self.devices.get(device).is_none_or(|device| device.writes >= limit) {
            return FileTurn::Waits;
        }
        self.probe(now, file);
        let Some(OpenFile { debts: Some(books), .. }) = self.files.get(file) else {
            return FileTurn::Nothing;
        };
        let is_old = |id| self.debts.get(id).since.0.saturating_add(age_ns) <= now.0;
        let aging = self.debts.oldest(books, DirtyList::Aging);
        let aging = aging.filter(|&id| wants_aging || is_old(id));
        let Some(first) = self.debts.oldest(books, DirtyList::Urgent).or(aging) else {
            return FileTurn::Waits;
        };
        self.send(now, device, first);
        FileTurn::Sent
    }

    /// Queues a request for this page and its neighbours.
    fn send(&mut self, now: Nanos, device: DeviceId, first: DirtyId) {
        let state = self.devices.get_mut(device).expect("a file's device outlives it");
        let max = state.geometry.max_io;
        state.writes += 1;
        let run = self.run_around(first, max);
        let debt = self.debts.get(first);
        let (file, submitter, is_fua) = (debt.file, debt.submitter, self.needs_fua(first));
        let OpenFile { len: file_len, place, debts: books, .. } =
            self.files.get_mut(file).expect("a file outlives its debts");
        let books = books.as_mut().expect("it owes something");
        let mut writes = Vec::with_capacity(run.len());
        let (mut bytes, mut is_retry) = (ByteCount::ZERO, false);
        let start = place.start() + Sectors(self.debts.get(run[0]).page.0 * SECTORS_PER_PAGE);
        for debt in run {
            let (page, frame) = (self.debts.get(debt).page, self.debts.get(debt).frame);
            let len = page_len(*file_len, page);
            bytes += ByteCount(u64::from(len));
            is_retry |= self.debts.get(debt).most_pages != 0;
            writes.push(WritePage { debt, frame, len });
            self.debts.put(books, debt, DirtyList::Writing);
        }
        let sectors = Sectors(bytes.0.div_ceil(SECTOR_SIZE));
        let origin = Origin { op: Op::Write, class: Class::BestEffort, submitter };
        let load = IoPayload { writes, is_fua, is_retry, parts: 1, ..IoPayload::default() };
        let state = self.devices.get_mut(device).expect("a file's device outlives it");
        state.queue.add(now, Request { start, sectors, origin, arrival: now, load });
        self.note_busy(device);
    }

    /// Whether this is the last page of a file that ends between two blocks of its device
    /// ([`Geometry::write_block`](crate::geometry::Geometry::write_block)).
    fn ends_off_block(&self, file: FileId, page: PageIndex) -> bool {
        let file = self.files.get(file).expect("a file outlives its writes");
        let block = self.devices.get(file.device).map_or(1, |it| it.geometry.write_block.0);
        page.offset() + ByteCount(PAGE_SIZE) > file.len && !file.len.0.is_multiple_of(block)
    }

    /// Whether a request for this page is durable: for its writer, or because of where it ends.
    fn needs_fua(&self, id: DirtyId) -> bool {
        let debt = self.debts.get(id);
        debt.is_fua || self.ends_off_block(debt.file, debt.page)
    }

    /// The page and its neighbours that may be written with it, in the order of the file.
    ///
    /// ```text
    ///   pages    D D D w D D D D . D       D dirty    w being written    . clean
    ///                    |<-P->|
    ///                    a request: to the right first, then to the left, up to the largest, or
    ///                    to what is left to the pages of one that was refused
    /// ```
    fn run_around(&self, first: DirtyId, max: Pages) -> Vec<DirtyId> {
        let debt = self.debts.get(first);
        let slot = Self::slot(debt.file);
        let along = |page: PageIndex| {
            let id = self.debts.of(self.cache.look_up(slot, page)?.frame())?;
            let other = self.debts.get(id);
            let may_go = matches!(other.on, DirtyList::Aging | DirtyList::Urgent);
            (may_go && self.needs_fua(id) == self.needs_fua(first)).then_some(id)
        };
        let most = |id| match self.debts.get(id).most_pages {
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
        let mut page = debt.page;
        while let Some(id) = along(page + Pages(1))
            && fits(run.len(), id)
        {
            run.push(id);
            page = page + Pages(1);
        }
        let mut before = Vec::new();
        let mut page = debt.page;
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
    pub(in crate::path) fn end_writes(
        &mut self,
        now: Nanos,
        device: DeviceId,
        job: &mut IoPayload,
        outcome: WriteOutcome,
    ) {
        let writes = core::mem::take(&mut job.writes);
        if let Some(state) = self.devices.get_mut(device) {
            state.writes -= job.parts;
        }
        let (count, mut good) = (writes.len(), 0);
        let mut verdict = None;
        let mut last = None;
        for (at, WritePage { debt, len, .. }) in writes.into_iter().enumerate() {
            let file = self.debts.get(debt).file;
            if last.is_some_and(|last| last != file) {
                last.into_iter().for_each(|last| self.check_flushes(last));
            }
            last = Some(file);
            let (bytes, fault) = match outcome {
                WriteOutcome::Durable => (u64::MAX, Fault::Short),
                WriteOutcome::Unstable(bytes, fault) => (bytes.0, fault),
                WriteOutcome::Suspect(fault) => {
                    self.suspect_page(now, debt, fault);
                    continue;
                }
            };
            if bytes >= at as u64 * PAGE_SIZE + u64::from(len) {
                good += 1;
                let is_probe = self.note_taken(file, debt);
                self.written(now, debt, outcome == WriteOutcome::Durable);
                if is_probe {
                    self.send_all_again(file);
                }
                continue;
            }
            match *verdict.get_or_insert_with(|| self.judge_refusal(file, count, good)) {
                RefusalVerdict::Resend(most_pages) => self.send_less(now, debt, most_pages),
                RefusalVerdict::Fail => self.fail_page(now, debt, fault),
            }
        }
        if let (Some(RefusalVerdict::Fail), WriteOutcome::Unstable(_, fault), Some(file)) =
            (verdict, outcome, last)
        {
            self.fail_unsent(now, file, fault);
        }
        last.into_iter().for_each(|last| self.check_flushes(last));
    }

    /// The device has the page, for good or not.
    fn written(&mut self, now: Nanos, id: DirtyId, is_durable: bool) {
        let debt = self.debts.get(id);
        let (frame, is_newest) = (debt.frame, debt.other.is_none() && !debt.is_dropped);
        if is_newest && !is_durable {
            self.cache.set_unstable(frame);
        }
        self.pay(now, id);
        self.wake(frame, None);
    }

    /// A flush failed while the page was on its way: it is sent again. Where flushes fail again and
    /// again, as with a FUA write of a bad sector that its client repeats, the waiters are told.
    fn suspect_page(&mut self, now: Nanos, id: DirtyId, fault: Fault) {
        let debt = self.debts.get_mut(id);
        debt.suspicions += 1;
        let most_pages = debt.most_pages;
        if debt.suspicions < SUSPICIONS_MAX {
            self.send_less(now, id, most_pages);
        } else {
            debt.suspicions = 0;
            self.fail_page(now, id, fault);
        }
    }

    /// The device has not got the page in this request: it is sent again, with fewer others.
    fn send_less(&mut self, now: Nanos, id: DirtyId, most_pages: u8) {
        self.stats.write_retries += 1;
        let debt = self.debts.get_mut(id);
        debt.most_pages = most_pages;
        let (file, frame, newer) = (debt.file, debt.frame, debt.other);
        if debt.is_dropped {
            self.pay(now, id);
            return;
        }
        debt.since = now;
        let books = self.files.get_mut(file).expect("a file outlives its debts");
        let books = books.debts.as_mut().expect("it owes something");
        let Some(newer) = newer else {
            self.debts.put(books, id, DirtyList::Urgent);
            self.list_file(file);
            return;
        };
        // What waits for these bytes waits for the newer ones instead.
        self.debts.inherit(books, id, newer);
        let heir = self.debts.get_mut(newer);
        if heir.is_fua && heir.is_locked {
            // The zero that waits for this one waits for that one instead.
            (heir.is_locked, heir.is_awaited) = (false, true);
            self.debts.get_mut(id).is_awaited = false;
        }
        self.waiters.move_to(frame, self.debts.get(newer).frame);
        self.pay(now, id);
    }

    /// The device has not got the page: it stays dirty, and all that wait for it are told.
    ///
    /// ```text
    ///   it has newer bytes    they are written in their turn, for the flushes that come later
    ///   a zero waits for it   it is held: the zero may make good what the write could not
    ///   else                  it has failed, until it is sent again
    /// ```
    fn fail_page(&mut self, now: Nanos, id: DirtyId, fault: Fault) {
        self.stats.pages_write_failed += 1;
        self.last_fault = fault;
        let debt = self.debts.get_mut(id);
        let (file, page, frame, epoch) = (debt.file, debt.page, debt.frame, debt.epoch);
        if debt.is_dropped {
            self.pay(now, id);
            return;
        }
        debt.since = now;
        let is_awaited = debt.other.is_none() && core::mem::take(&mut debt.is_awaited);
        let has_newer = debt.other.is_some();
        let books = self.files.get_mut(file).expect("a file outlives its debts");
        let books = books.debts.as_mut().expect("it owes something");
        if has_newer {
            Self::tell_flushes(&mut self.writes, books, epoch, fault);
            self.pay(now, id);
        } else if is_awaited {
            let debt = self.debts.get_mut(id);
            (debt.is_locked, debt.is_urgent) = (true, true);
            self.debts.put(books, id, DirtyList::Held);
            self.end_awaited(file, page);
        } else {
            // Its writer is told: what follows is covered by flushes.
            self.debts.get_mut(id).is_fua = false;
            self.debts.put_failed(books, id, fault);
            self.plan_probe(now, file, fault);
        }
        self.wake(frame, Some(fault));
        self.list_file(file);
    }

    /// Ends a debt in a request: its frame is the cache's alone, and newer bytes of the page may be
    /// written now.
    fn pay(&mut self, now: Nanos, id: DirtyId) {
        let debt = self.debts.get(id);
        let (file, page, newer) = (debt.file, debt.page, debt.other);
        let (is_awaited, is_dropped) = (debt.is_awaited, debt.is_dropped);
        if !is_dropped {
            let books = self.files.get_mut(file).expect("a file outlives its debts");
            let books = books.debts.as_mut().expect("it owes something");
            self.debts.settle(books, id);
        }
        let frame = self.debts.remove(id);
        self.cache.release(frame);
        self.room.give_back(1);
        if let Some(newer) = newer {
            self.debts.get_mut(newer).other = None;
            self.debts.get_mut(newer).since = now;
            self.let_go(now, newer);
        }
        if is_awaited {
            self.end_awaited(file, page);
        }
    }

    /// A debt that is held may be written now, unless something else still holds it.
    pub(super) fn let_go(&mut self, now: Nanos, id: DirtyId) {
        let debt = self.debts.get_mut(id);
        if debt.is_locked || debt.other.is_some() || debt.on != DirtyList::Held {
            return;
        }
        debt.since = now;
        let (file, on) =
            (debt.file, if debt.is_urgent { DirtyList::Urgent } else { DirtyList::Aging });
        let books = self.files.get_mut(file).expect("a file outlives its debts");
        self.debts.put(books.debts.as_mut().expect("it owes something"), id, on);
        self.list_file(file);
    }

    /// The page's bytes are not wanted any more: no flush waits for them. If they are in a request,
    /// that ends as it will.
    pub(in crate::path) fn drop_debt(&mut self, id: DirtyId, fault: Option<Fault>) {
        let debt = self.debts.get(id);
        let (file, frame, other, on) = (debt.file, debt.frame, debt.other, debt.on);
        let books = self.files.get_mut(file).expect("a file outlives its debts");
        let books = books.debts.as_mut().expect("it owes something");
        self.debts.settle(books, id);
        if let Some(other) = other {
            self.debts.get_mut(other).other = None;
        }
        if on == DirtyList::Writing {
            let debt = self.debts.get_mut(id);
            (debt.is_dropped, debt.is_awaited, debt.other) = (true, false, None);
        } else {
            self.debts.remove(id);
            self.cache.release(frame);
            self.room.give_back(1);
        }
        self.wake(frame, fault);
    }

    /// Puts a file in the flusher's line if it has something there, now or later.
    pub(super) fn list_file(&mut self, file: FileId) {
        let Some(OpenFile { debts: Some(books), .. }) = self.files.get_mut(file) else { return };
        if !books.is_listed && books.has_work() {
            books.is_listed = true;
            self.owing.push_back(file);
        }
        if let Some(due) = self.due(file) {
            self.next_due = self.next_due.min(due);
        }
    }
}

/// So often a page is on its way while a flush fails before its waiters are told.
const SUSPICIONS_MAX: u8 = 8;

/// Nothing is due.
pub(in crate::path) const NEVER: Nanos = Nanos(u64::MAX);
