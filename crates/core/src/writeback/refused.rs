//! Handles writes that a device refuses: splits and resends their requests, fails their pages, and
//! probes the device. A flush waits for a bounded number of refused requests.
//!
//! ```text
//!   a request is refused
//!     |-- some of it was taken                the rest is sent again, as one request
//!     |-- several pages, and fewer than       its halves are sent again; of four pages or fewer
//!     |   REFUSALS_MAX refused in a row       each page, so that only the bad ones fail
//!     '-- one page, or as many in a row       its pages fail; with as many in a row, so do the
//!                                             pages due next: the device accepts nothing
//!
//!   a failed page is sent again by     a flush, a write of the same page, or a probe
//! ```
//!
//! A full file system can take milliseconds to refuse a request, because it commits its journal
//! while searching for free blocks. A refusal therefore counts for more than one page, and a flush
//! of any size ends after REFUSALS_MAX of them plus the requests already sent.

use alloc::vec::Vec;

use super::Writeback;
use super::dirty_page::DirtyList;
use super::refusals::{LEAST_PROBE_NS, RefusalKind, RefusalVerdict};
use crate::driver_io::Fault;
use crate::ids::{DirtyId, FileId};
use crate::read_path::ReadPath;
use crate::units::Nanos;

impl Writeback {
    /// Records that the device accepted a page; returns true if it was the probe.
    pub(super) fn note_taken(&mut self, file: FileId, id: DirtyId) -> bool {
        let Some(dirty_file) = self.files.get_mut(file) else {
            return false;
        };
        let refusals = &mut dirty_file.refusals;
        (refusals.in_a_row, refusals.probes) = (0, 0);
        refusals.probe.take_if(|probe| *probe == id).is_some()
    }

    /// Returns the verdict on the pages of a request that its device refused.
    pub(super) fn judge_refusal(
        &mut self,
        file: FileId,
        pages: usize,
        taken: usize,
    ) -> RefusalVerdict {
        match self.files.get_mut(file) {
            Some(dirty_file) => dirty_file.refusals.judge(pages, taken),
            // The file is closed, and nothing is sent again.
            None => RefusalVerdict::Fail,
        }
    }

    /// Schedules the next probe after a page failed, unless one is scheduled.
    pub(super) fn plan_probe(&mut self, now: Nanos, file: FileId, fault: Fault) {
        let retry_ns = self.settings.retry_ns();
        let Some(dirty_file) = self.files.get_mut(file) else { return };
        let refusals = &mut dirty_file.refusals;
        let kind = RefusalKind::of(fault);
        let is_known = kind == refusals.kind && refusals.probe_at.is_some_and(|at| at > now);
        refusals.kind = kind;
        if !is_known {
            refusals.plan(now, retry_ns);
        }
    }

    /// Returns the time of the file's next probe, if one is due.
    pub(super) fn next_probe(&self, file: FileId) -> Option<Nanos> {
        let dirty_file = self.files.get(file)?;
        self.dirty.oldest(dirty_file, DirtyList::Failed)?;
        dirty_file.refusals.probe_at
    }

    /// Sends the oldest failed page again on its own, if a probe is due. If the device accepts it,
    /// all failed pages follow.
    pub(super) fn probe(&mut self, now: Nanos, file: FileId) {
        if self.next_probe(file).is_none_or(|at| at > now) {
            return;
        }
        let retry_ns = self.settings.retry_ns();
        let Some(dirty_file) = self.files.get_mut(file) else { return };
        let Some(id) = self.dirty.oldest(dirty_file, DirtyList::Failed) else { return };
        let refusals = &mut dirty_file.refusals;
        refusals.probes = refusals.probes.saturating_add(1);
        refusals.probe = Some(id);
        // If this page is dropped and never returns, the next probe still follows.
        refusals.plan(now, retry_ns);
        self.resend(file, id);
        debug_assert!(self.dirty.get(id).on == DirtyList::Urgent, "a probe is sent at once");
        self.dirty.get_mut(id).most_pages = 1;
    }

    /// Advances the next probes after a write was refused because failed pages hold the dirty
    /// budget. Writers then find out within a second instead of a minute that the device accepts
    /// pages again.
    pub(super) fn probe_soon(&mut self, now: Nanos) {
        let soon = Nanos(now.0.saturating_add(LEAST_PROBE_NS));
        for &file in &self.flusher_line {
            let dirty_file = self.files.get_mut(file);
            if let Some(at) =
                dirty_file.and_then(|dirty_file| dirty_file.refusals.probe_at.as_mut())
            {
                *at = soon.min(*at);
                self.next_due = self.next_due.min(*at);
            }
        }
    }

    /// Sends all failed pages of the file again. Resets the count of refusals only if no flush
    /// waits: otherwise overlapping flushes would delay each other indefinitely.
    pub(super) fn resend_all_failed(&mut self, file: FileId) {
        let Some(dirty_file) = self.files.get_mut(file) else { return };
        dirty_file.refusals.probe_at = None;
        if dirty_file.flushes.is_empty() {
            dirty_file.refusals.in_a_row = 0;
        }
        while let Some(dirty_file) = self.files.get(file)
            && let Some(id) = self.dirty.oldest(dirty_file, DirtyList::Failed)
        {
            self.resend(file, id);
        }
        self.list_file(file);
    }

    /// Sends a failed page again.
    ///
    /// Waiting flushes have already got its fault and do not wait for the retry. Otherwise a client
    /// that keeps flushing, or writing the page, could block them.
    ///
    /// ```text
    ///   flush F0      waits for a, b, c             gets b's fault when c is done
    ///   flush F1                  waits for b, and pages dirtied later
    ///                       ^-- b has failed, and is sent again for F1
    /// ```
    pub(super) fn resend(&mut self, file: FileId, id: DirtyId) {
        let Some(dirty_file) = self.files.get_mut(file) else { return };
        let flush_seq = self.dirty.get(id).flush_seq;
        if let Some(fault) = dirty_file.fault_of(flush_seq) {
            Self::fail_waiting_flushes(&mut self.writes, dirty_file, flush_seq, fault);
        }
        assert!(self.dirty.get(id).on == DirtyList::Failed, "{id:?} has not failed");
        self.dirty.get_mut(id).most_pages = 0;
        self.dirty.put(dirty_file, id, DirtyList::Urgent);
        self.dirty.move_to_current_flush_seq(dirty_file, id);
    }

    /// After too many refusals in a row, fails the pages due next without sending them.
    ///
    /// Pages that a FUA write or a cut waits for are excluded, because these need a result of their
    /// own. The unsent pages are listed before the refused ones, so that the next flush begins with
    /// them.
    pub(super) fn fail_unsent(
        &mut self,
        path: &mut ReadPath,
        now: Nanos,
        file: FileId,
        fault: Fault,
    ) {
        let (wants_aging, age_ns) = (self.wants_aging(), self.settings.age_ns);
        let Some(dirty_file) = self.files.get_mut(file) else { return };
        if !dirty_file.refusals.takes_nothing() {
            return;
        }
        let is_next = |id: &DirtyId| {
            let dirty = self.dirty.get(*id);
            let is_old = dirty.since.0.saturating_add(age_ns) <= now.0;
            let is_due = dirty.on == DirtyList::Urgent || wants_aging || is_old;
            let is_awaited = dirty.is_awaited || path.page_in.waiters.is_waited_for(dirty.frame);
            is_due && !is_awaited
        };
        let lists = [DirtyList::Urgent, DirtyList::Aging].into_iter();
        let unsent = lists.flat_map(|on| self.dirty.list(dirty_file, on)).filter(is_next);
        let unsent: Vec<_> = unsent.collect();
        if unsent.is_empty() {
            return;
        }
        let refused: Vec<_> = self.dirty.list(dirty_file, DirtyList::Failed).collect();
        path.telemetry.stats.pages_write_failed += unsent.len() as u64;
        for id in unsent {
            self.dirty.put_failed(dirty_file, id, fault);
        }
        for id in refused {
            // Only the position changes; its flushes still get its own fault.
            let own = dirty_file.fault_of(self.dirty.get(id).flush_seq);
            self.dirty.put_failed(dirty_file, id, own.unwrap_or(fault));
        }
        self.plan_probe(now, file, fault);
        self.list_file(file);
    }
}
