//! A request in flight, and the part of it that has arrived. Each page is reported as complete
//! once; the modules above end its fill.

use alloc::vec::Vec;

use super::payload::{IoPayload, PageFill};
use crate::device_model::SentRequest;
use crate::ids::{DeviceId, DomainCommand};
use crate::sched::Request;
use crate::units::{ByteCount, Nanos, Sector, Sectors};

/// A request in flight on a device.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) device: DeviceId,
    pub(crate) request: Request<IoPayload>,
    pub(super) sent: SentRequest,
    /// Requests at the device when it was dispatched, including itself.
    pub(super) depth: u32,
    /// Position of a cached write in the order of its flush domain.
    pub(crate) command: Option<DomainCommand>,
    /// Number of its first pages that have arrived; their fills have ended.
    pub(crate) arrived_pages: usize,
    /// Length of these pages.
    pub(super) arrived: Sectors,
    /// Bytes that have arrived, as last reported by the driver.
    arrived_bytes: ByteCount,
    /// The time at which the last byte had arrived, which ends the device's service.
    pub(super) served: Option<ServedRequest>,
    /// True if a caller began to wait for one of its pages after it was dispatched.
    pub(super) is_joined: bool,
}

/// Time at which a device had served a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedRequest {
    pub(crate) at: Nanos,
    /// True if the end was observed on time; otherwise `at` is an upper bound.
    pub(crate) is_seen: bool,
}

impl InFlight {
    pub(super) fn new(
        device: DeviceId,
        request: Request<IoPayload>,
        sent: SentRequest,
        depth: u32,
        command: Option<DomainCommand>,
    ) -> Self {
        let (arrived_pages, arrived, arrived_bytes) = (0, Sectors::ZERO, ByteCount::ZERO);
        let served = None;
        Self {
            device,
            request,
            sent,
            depth,
            command,
            arrived_pages,
            arrived,
            arrived_bytes,
            served,
            is_joined: false,
        }
    }

    /// Returns the pages that have not arrived yet.
    pub(crate) fn expected_pages(&self) -> &[PageFill] {
        &self.request.load.pages[self.arrived_pages..]
    }

    /// Returns true if the driver may report that `bytes` have arrived: not less than before, and
    /// not more than requested.
    pub(crate) fn can_arrive(&self, bytes: ByteCount) -> bool {
        let reads_pages = !self.request.load.pages.is_empty();
        reads_pages && self.arrived_bytes <= bytes && bytes <= self.request.sectors.bytes()
    }

    /// Returns true if this result is valid: a transfer cannot end with fewer bytes than had
    /// arrived.
    pub(crate) fn can_complete(&self, result: Result<ByteCount, i32>) -> bool {
        result.is_err() || result.is_ok_and(|bytes| self.arrived_bytes <= bytes)
    }

    /// Returns true if all bytes have arrived and the request is not yet recorded as served.
    pub(super) fn is_newly_served(&self) -> bool {
        self.served.is_none() && self.arrived_bytes == self.request.sectors.bytes()
    }

    /// Records that `bytes` have arrived; returns the pages completed by them.
    pub(super) fn arrive(&mut self, bytes: ByteCount) -> ArrivedPages {
        self.arrived_bytes = bytes;
        let Self { device, request, arrived_pages, arrived, .. } = self;
        let start = request.start + *arrived;
        let mut pages = Vec::new();
        while let Some(page) = request.load.pages.get(*arrived_pages)
            && page.is_covered(*arrived, bytes)
        {
            pages.push(page.ended());
            *arrived_pages += 1;
            *arrived += page.part.sectors();
        }
        assert!(*arrived <= request.sectors, "a request is as long as its pages");
        ArrivedPages { device: *device, start, pages }
    }
}

/// Pages of a request in flight that have arrived.
#[derive(Debug)]
pub(crate) struct ArrivedPages {
    pub(crate) device: DeviceId,
    /// Device position of the first page.
    pub(crate) start: Sector,
    /// Fills of the request's pages, which now end.
    pub(crate) pages: Vec<PageFill>,
}
