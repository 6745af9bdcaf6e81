//! Joins: reads of pages that are already in flight. Each joined request is reported once, for
//! drivers that can speed up a request, for example by hedging. Joins change no request.
//!
//! ```text
//!   read-ahead   |== sent ================ .. late
//!   reader                 |-- waits ------ ..
//!                          ^ joined: as urgent as a demand request from now on
//! ```

use super::DeviceQueues;
use super::in_flight::InFlight;
use crate::ids::{DeviceId, Tag};
use crate::page_in::FilePages;
use crate::sched::Op;
use crate::table::Frame;
use crate::units::{Nanos, PageIndex, Sector};

impl DeviceQueues {
    /// Notes that a caller waits for a page of an open file that is being read into `frame`. A
    /// deferred read-ahead request for it becomes a demand request; a request in flight is joined.
    pub(crate) fn promote(
        &mut self,
        now: Nanos,
        device: DeviceId,
        file: FilePages<'_>,
        page: PageIndex,
        frame: Frame,
    ) {
        file.sectors_of(page, |sector| {
            let state =
                self.devices.get_mut(device).expect("a device with open files is not removed");
            if state.has_ahead() {
                state.promote(now, sector, frame);
            }
            if state.at_device() > 0 {
                self.join(device, sector);
            }
        });
    }

    /// Joins the request in flight that reads a sector, unless it was joined before.
    fn join(&mut self, device: DeviceId, sector: Sector) {
        let reads = |request: &InFlight| request.device == device && request.is_to_read(sector);
        // Readers mostly wait for pages of the same request, and join it more than once.
        let is_noted = |tag: Tag| self.in_flight.get(tag).is_some_and(reads);
        if self.joined_last.is_some_and(is_noted) {
            return;
        }
        let found = self.in_flight.iter().find(|(_, request)| reads(request)).map(|(tag, _)| tag);
        let Some(tag) = found else { return };
        self.joined_last = Some(tag);
        let request = self.in_flight.get_mut(tag).expect("it was found");
        if !request.is_joined {
            request.is_joined = true;
            self.joined.push_back(tag);
        }
    }

    /// Takes a request in flight that was joined, with its device.
    pub(crate) fn take_joined(&mut self) -> Option<(DeviceId, Tag)> {
        let tag = self.joined.pop_front()?;
        let request = self.in_flight.get(tag).expect("one that ends is forgotten");
        Some((request.device, tag))
    }

    /// Removes a completed request from the queue of joins, which bounds the queue even if the
    /// driver never polls it.
    pub(super) fn forget_joined(&mut self, tag: Tag, request: &InFlight) {
        if request.is_joined {
            self.joined.retain(|other| *other != tag);
        }
    }
}

impl InFlight {
    /// Returns true if this request reads a sector that has not arrived yet.
    fn is_to_read(&self, sector: Sector) -> bool {
        let is_read = self.request.origin.op == Op::Read;
        is_read && self.request.start + self.arrived <= sector && sector < self.request.end()
    }
}
