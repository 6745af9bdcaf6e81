//! Ends write requests: their pages become clean, are sent again, or fail. A page whose write
//! failed stays dirty.

use super::Writeback;
use super::dirty_page::DirtyList;
use super::refusals::RefusalVerdict;
use crate::device_queue::payload::{IoPayload, WritePage};
use crate::driver_io::Fault;
use crate::ids::{DeviceId, DirtyId};
use crate::read_path::ReadPath;
use crate::units::{ByteCount, Nanos, PAGE_SIZE};

/// Result of a write request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WriteOutcome {
    /// The device has the first bytes, perhaps in a volatile cache; the fault applies to the rest.
    Unstable(ByteCount, Fault),
    /// All of it is durable.
    Durable,
    /// Some of it may be lost, because a flush failed with this fault in the meantime.
    Suspect(Fault),
}

impl Writeback {
    /// Ends a write request: pages covered by its bytes are written, and `refused.rs` decides on
    /// the others. If a flush failed in the meantime, all are written again.
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
            let left = state.flusher_requests.checked_sub(job.parts);
            state.flusher_requests = left.expect("a device counts the requests of the flusher");
        }
        let (count, mut good) = (writes.len(), 0);
        let mut verdict = None;
        let mut last = None;
        for (at, WritePage { dirty, len, frame }) in writes.into_iter().enumerate() {
            let file = self.dirty.get(dirty).file;
            assert!(self.dirty.get(dirty).frame == frame, "{dirty:?} moved while it was written");
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

    /// Ends a page that is on the device, durable or not.
    fn written(&mut self, path: &mut ReadPath, now: Nanos, id: DirtyId, is_durable: bool) {
        let dirty = self.dirty.get(id);
        assert!(dirty.is_in_request(), "{id:?} is written in no request");
        let (frame, is_newest) = (dirty.frame, dirty.other.is_none() && !dirty.is_dropped);
        if is_newest && !is_durable {
            path.page_in.cache.set_unstable(frame);
        }
        self.end_dirty(path, now, id);
        self.wake(path, frame, None);
    }

    /// Sends a page again because a flush failed while it was in flight. If flushes keep failing,
    /// for example for a client that repeats a FUA write of a bad sector, its waiters get the
    /// fault.
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

    /// Sends a refused page again, in a smaller request.
    fn resend_smaller(&mut self, path: &mut ReadPath, now: Nanos, id: DirtyId, most_pages: u8) {
        path.telemetry.stats.write_retries += 1;
        let dirty = self.dirty.get_mut(id);
        assert!(dirty.is_in_request(), "{id:?} is refused in no request");
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
        // Waiters for these bytes wait for the newer ones instead.
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

    /// Fails a page that is not on the device: it stays dirty, and its waiters get the fault.
    ///
    /// ```text
    ///   it has newer bytes    they are written in their turn, for later flushes
    ///   a zero waits for it   it is held: the zero may repair what the write could not
    ///   otherwise             it has failed, until it is sent again
    /// ```
    fn fail_page(&mut self, path: &mut ReadPath, now: Nanos, id: DirtyId, fault: Fault) {
        path.telemetry.stats.pages_write_failed += 1;
        self.last_fault = fault;
        let dirty = self.dirty.get_mut(id);
        assert!(dirty.is_in_request(), "{id:?} fails in no request");
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
            self.end_awaited(path, file, page, Some(fault));
        } else {
            // Its writer gets the fault; later attempts are covered by flushes, so they need no
            // FUA.
            self.dirty.get_mut(id).is_fua = false;
            self.dirty.put_failed(dirty_file, id, fault);
            self.plan_probe(now, file, fault);
        }
        self.wake(path, frame, Some(fault));
        self.list_file(file);
    }

    /// Ends a dirty page in a request: the write releases its frame, and newer bytes of the page
    /// may be written.
    fn end_dirty(&mut self, path: &mut ReadPath, now: Nanos, id: DirtyId) {
        let dirty = self.dirty.get(id);
        assert!(dirty.is_in_request(), "{id:?} ends in no request");
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
            assert!(
                self.dirty.get(newer).other == Some(id),
                "newer and older bytes name each other"
            );
            self.dirty.get_mut(newer).other = None;
            self.dirty.get_mut(newer).since = now;
            self.unhold(now, newer);
        }
        if is_awaited {
            self.end_awaited(path, file, page, None);
        }
    }

    /// Makes a held dirty page writable, unless something else still holds it.
    pub(super) fn unhold(&mut self, now: Nanos, id: DirtyId) {
        let dirty = self.dirty.get_mut(id);
        if dirty.is_locked || dirty.other.is_some() || dirty.on != DirtyList::Held {
            return;
        }
        dirty.since = now;
        let (file, on) =
            (dirty.file, if dirty.is_urgent { DirtyList::Urgent } else { DirtyList::Aging });
        let dirty_file = self.files.get_mut(file).expect("a dirty page is counted by its file");
        self.dirty.put(dirty_file, id, on);
        self.list_file(file);
    }

    /// Discards the bytes of a dirty page, so that no flush waits for it. If it is in a request,
    /// that request still ends normally, and a zero still waits for it.
    pub(crate) fn drop_dirty(&mut self, path: &mut ReadPath, id: DirtyId, fault: Option<Fault>) {
        let dirty = self.dirty.get(id);
        assert!(!dirty.is_dropped, "{id:?} is dropped once");
        let (file, frame, other, on) = (dirty.file, dirty.frame, dirty.other, dirty.on);
        let (page, is_awaited) = (dirty.page, dirty.is_awaited);
        let dirty_file = self.files.get_mut(file).expect("a dirty page is counted by its file");
        self.dirty.settle(dirty_file, id);
        if let Some(other) = other {
            self.dirty.get_mut(other).other = None;
        }
        if on == DirtyList::Writing {
            let dirty = self.dirty.get_mut(id);
            (dirty.is_dropped, dirty.other) = (true, None);
        } else {
            self.dirty.remove(id);
            path.page_in.cache.release(frame);
            self.budget.release(1);
            if is_awaited {
                self.end_awaited(path, file, page, None);
            }
        }
        self.wake(path, frame, fault);
    }
}

/// Number of flushes that fail while a page is in flight, or a flush waits, before the waiters get
/// the fault.
pub(super) const SUSPICIONS_MAX: u8 = 8;
