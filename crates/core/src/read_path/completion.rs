//! Completions of device reads: a page becomes up to date, is read again, or fails. An error is
//! reported only to a caller that waits; a failed read-ahead page is dropped and read again on
//! demand.

use super::ReadPath;
use crate::cache::Filling;
use crate::device_queue::payload::{PageFill, PageRun};
use crate::driver_io::Fault;
use crate::ids::{DeviceId, Waiter};
use crate::page_in::partial_fill::{FailedPart, PageEnd, PartEnd};
use crate::sched::Origin;
use crate::table::Frame;
use crate::units::{ByteCount, Nanos, Sector, Sectors};

/// The place that a page of a request was read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSource {
    pub(crate) device: DeviceId,
    pub(crate) origin: Origin,
    pub(crate) start: Sector,
}

/// End of a request, with or without an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestEnd {
    /// Bytes that arrived.
    pub(crate) bytes: ByteCount,
    /// Fault of the bytes that did not.
    pub(crate) fault: Fault,
    /// Number of pages of the request.
    pub(crate) pages: usize,
}

impl ReadPath {
    /// Handles one page, `from` the start of a completed request. Returns true if the page is good.
    ///
    /// ```text
    ///   request of several pages   a caller waits for this one   read it once more, alone
    ///                              no caller waits               drop it
    ///   request of one page, or    a caller waits                it gets the error
    ///   the device is removed, or  no caller waits               drop it
    ///   [`Fault::OF_ALL`]
    /// ```
    ///
    /// Without the retry, a reader would get an error for a bad sector in a neighbouring page that
    /// it did not request.
    pub(crate) fn end_page(
        &mut self,
        now: Nanos,
        source: PageSource,
        page: PageFill,
        from: Sectors,
        request: RequestEnd,
    ) -> bool {
        let RequestEnd { bytes, fault, pages } = request;
        assert!(pages > 0, "a page belongs to a request with pages");
        if page.is_covered(from, bytes) {
            self.end_fill(now, page);
            return true;
        }
        let is_awaited = self.page_in.waiters.is_waited_for(page.filling.frame());
        let may_be_good = pages > 1 && fault != Fault::OF_ALL;
        if may_be_good && is_awaited && self.devices.get(source.device).is_some() {
            self.retry_page(now, source.device, source.origin, PageRun::again(source.start, page));
        } else {
            let got = if page.part.is_whole() { page.got(from, bytes) } else { 0 };
            self.fail_fill(now, source, page, fault, got);
        }
        false
    }

    /// Reads one page of a failed request again.
    fn retry_page(&mut self, now: Nanos, device: DeviceId, origin: Origin, run: PageRun) {
        assert!(run.job.is_retry, "a second request for a page stays alone");
        self.telemetry.stats.retries += 1;
        self.devices.add_request_quietly(now, device, run.request(now, origin));
    }

    /// Ends the successful fill of a page, or of a part of one.
    pub(crate) fn end_fill(&mut self, now: Nanos, fill: PageFill) {
        let PageFill { filling, part, .. } = fill;
        if part.is_whole() {
            self.have_page(filling);
        } else {
            self.end_part(now, filling, PartEnd::Good);
        }
    }

    /// Ends the failed fill of a page, or of a part of one; `got` bytes of it arrived.
    ///
    /// ```text
    ///   whole        its waiters get the fault
    ///   a part       a caller waits      it gets the fault, once all other parts have ended
    ///                no caller waits     ... and then one does: this part is read again
    ///                                    ... and still none does: the page is dropped
    /// ```
    pub(crate) fn fail_fill(
        &mut self,
        now: Nanos,
        source: PageSource,
        fill: PageFill,
        fault: Fault,
        got: u32,
    ) {
        let frame = fill.filling.frame();
        if !self.page_in.partial.contains(frame) {
            self.fail(fill.filling, fault, got);
            return;
        }
        let PageSource { device, origin, start } = source;
        let is_last_word =
            self.page_in.waiters.is_waited_for(frame) || self.devices.get(device).is_none();
        let filling = fill.filling.part();
        let end = if is_last_word {
            PartEnd::Bad(fault)
        } else {
            PartEnd::Retry(FailedPart { device, origin, run: PageRun::again(start, fill), fault })
        };
        self.end_part(now, filling, end);
    }

    /// Ends a part of a page, and the page with its last part.
    fn end_part(&mut self, now: Nanos, filling: Filling, end: PartEnd) {
        let frame = filling.frame();
        match self.page_in.partial.end_part(frame, end) {
            PageEnd::Waits => {}
            PageEnd::Good => self.have_page(filling),
            PageEnd::Bad(fault, again) => {
                let is_there = |part: &FailedPart| self.devices.get(part.device).is_some();
                let is_awaited = self.page_in.waiters.is_waited_for(frame);
                if again.is_empty() || !is_awaited || !again.iter().all(is_there) {
                    self.fail(filling, fault, 0);
                    return;
                }
                assert!(!self.page_in.partial.contains(frame), "all parts of the page have ended");
                self.page_in.partial.begin(&filling, again.len());
                for FailedPart { device, origin, run, .. } in again {
                    self.retry_page(now, device, origin, run);
                    // The last part may be a hole, whose completion does not mark the device as
                    // busy.
                    self.devices.note_busy(device);
                }
            }
        }
    }

    fn have_page(&mut self, filling: Filling) {
        let frame = filling.frame();
        debug_assert!(!self.page_in.partial.contains(frame), "parts of {frame:?} are to come");
        self.page_in.cache.filled(filling);
        self.wake(frame, None);
    }

    /// Ends a failed fill: the page leaves the cache, and its waiters get the fault.
    fn fail(&mut self, filling: Filling, fault: Fault, got: u32) {
        let frame = filling.frame();
        debug_assert!(!self.page_in.partial.contains(frame), "parts of {frame:?} are to come");
        let is_awaited = self.page_in.waiters.is_waited_for(frame);
        self.telemetry.stats.pages_failed += u64::from(is_awaited);
        self.page_in.cache.fill_failed(filling);
        while let Some(waiter) = self.page_in.waiters.take(frame) {
            match waiter {
                Waiter::Read(id) => self.wake_read_failed(id, frame, fault, got),
                Waiter::Write(id) => self.woken_writes.push_back((id, Some(fault))),
            }
        }
    }

    /// Wakes the waiters of a frame that is filled, written or failed. Reads without another wait
    /// become ready; writes are queued for writeback.
    ///
    /// A woken waiter must not start I/O: it could take the frame that another waiter is being
    /// woken for.
    pub(crate) fn wake(&mut self, frame: Frame, fault: Option<Fault>) {
        while let Some(waiter) = self.page_in.waiters.take(frame) {
            match waiter {
                Waiter::Read(id) => self.wake_read(id, fault),
                Waiter::Write(id) => self.woken_writes.push_back((id, fault)),
            }
        }
        debug_assert!(!self.page_in.waiters.is_waited_for(frame), "all of them are told");
    }
}
