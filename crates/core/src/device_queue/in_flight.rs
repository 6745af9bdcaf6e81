//! One request in flight: what its device was sent, and how much of it has come.
//!
//! In:    a request that was taken from its queue; how many bytes of it have arrived.
//! Out:   the pages that are complete, each once; the pages that are still to come.
//! Never: the end of a fill: that is for the parts above.

use alloc::vec::Vec;

use super::payload::{IoPayload, PageFill};
use crate::device_model::SentRequest;
use crate::ids::{DeviceId, DomainCommand};
use crate::sched::Request;
use crate::units::{ByteCount, Nanos, Sector, Sectors};

/// A request that a device is working on.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) device: DeviceId,
    pub(crate) request: Request<IoPayload>,
    pub(super) sent: SentRequest,
    /// How many requests were at the device when it was sent, with itself.
    pub(super) depth: u32,
    /// Of a write from the cache, its place in the order of its flush domain.
    pub(crate) command: Option<DomainCommand>,
    /// How many of its pages have arrived, from the first on: their fills have ended.
    pub(crate) arrived_pages: usize,
    /// How long these pages are.
    pub(super) arrived: Sectors,
    /// How much of it has come, as its driver said last.
    arrived_bytes: ByteCount,
    /// Once its device has served it, which is when its last byte has arrived.
    pub(super) served: Option<ServedRequest>,
    /// Whether a caller began to wait for a page of it after it was sent.
    pub(super) is_joined: bool,
}

/// When a device had served a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedRequest {
    pub(crate) at: Nanos,
    /// Whether that was seen when it happened; otherwise `at` is an upper bound.
    pub(crate) is_seen: bool,
}

impl InFlight {
    pub(super) fn new(
        device: DeviceId,
        request: Request<IoPayload>,
        (sent, depth): (SentRequest, u32),
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

    /// The pages that are still to come.
    pub(crate) fn expected_pages(&self) -> &[PageFill] {
        &self.request.load.pages[self.arrived_pages..]
    }

    /// Whether its driver may say that so much has arrived: no less than before, and no more than
    /// was asked for.
    pub(crate) fn can_arrive(&self, bytes: ByteCount) -> bool {
        let reads_pages = !self.request.load.pages.is_empty();
        reads_pages && self.arrived_bytes <= bytes && bytes <= self.request.sectors.bytes()
    }

    /// Whether it may end so: a transfer has no less in the end than had arrived.
    pub(crate) fn can_complete(&self, result: Result<ByteCount, i32>) -> bool {
        result.is_err() || result.is_ok_and(|bytes| self.arrived_bytes <= bytes)
    }

    /// Whether all of it has arrived, and its device was not known to have served it.
    pub(super) fn is_newly_served(&self) -> bool {
        self.served.is_none() && self.arrived_bytes == self.request.sectors.bytes()
    }

    /// So much has arrived: the pages that are complete now and were not before.
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
    /// Where on the device the first of them lies.
    pub(crate) start: Sector,
    /// Their fills, which end now.
    pub(crate) pages: Vec<PageFill>,
}
