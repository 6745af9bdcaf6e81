//! Direct requests read or write a run of sectors past the cache.
//!
//! They are for callers with a cache of their own, and for writes that bypass this one. The
//! scheduler arbitrates between them and the cache's requests to the same device. The driver
//! supplies the memory.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

use crate::device_queue::payload::IoPayload;
use crate::driver_io::{DirectDone, Fault};
use crate::ids::{DirectId, DirectKind};
use crate::sched::{Origin, Request};
use crate::slab::Slab;
use crate::units::{ByteCount, Nanos, Sector, Sectors};

/// The direct requests of a path.
#[derive(Debug, Default)]
pub(super) struct DirectRequests {
    requests: Slab<DirectKind, (Sector, Sectors)>,
    done: VecDeque<DirectDone>,
}

impl DirectRequests {
    /// Creates a request for `sectors` sectors from `start` on, to be queued.
    pub(super) fn begin(
        &mut self,
        now: Nanos,
        start: Sector,
        sectors: Sectors,
        origin: Origin,
    ) -> (DirectId, Request<IoPayload>) {
        assert!(sectors > Sectors::ZERO, "a request moves at least one sector");
        let id = self.requests.insert((start, sectors));
        let load = IoPayload { direct: Vec::from([id]), ..IoPayload::default() };
        (id, Request { start, sectors, origin, arrival: now, load })
    }

    /// Ends the direct requests merged into a request of which `bytes` bytes were transferred.
    ///
    /// ```text
    ///   |== first ==|=== second ===|= third =|      of the merged request
    ///   |<------- bytes ------->|                   first: served; the others: cut short
    /// ```
    pub(super) fn end(
        &mut self,
        load: &mut IoPayload,
        start: Sector,
        bytes: ByteCount,
        fault: Fault,
    ) {
        for id in mem::take(&mut load.direct) {
            let (own, sectors) = self.requests.remove(id).expect("a direct request ends once");
            assert!(own >= start, "{id:?} begins before the request that serves it");
            let served = (own - start).bytes() + sectors.bytes() <= bytes;
            self.done.push_back(DirectDone { id, fault: (!served).then_some(fault) });
        }
    }

    pub(super) fn pop_done(&mut self) -> Option<DirectDone> {
        self.done.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_merged_request_that_was_cut_short_the_first_part_is_served() {
        let mut requests = DirectRequests::default();
        let origin = Origin::default();
        let (first, mut merged) = requests.begin(Nanos(0), Sector(8), Sectors(8), origin);
        let (second, mut next) = requests.begin(Nanos(0), Sector(16), Sectors(8), origin);
        merged.load.direct.append(&mut next.load.direct);
        let eio = Fault::Io(5);
        requests.end(&mut merged.load, Sector(8), ByteCount(5000), eio);
        assert_eq!(requests.pop_done(), Some(DirectDone { id: first, fault: None }));
        assert_eq!(requests.pop_done(), Some(DirectDone { id: second, fault: Some(eio) }));
        assert_eq!(requests.pop_done(), None);
    }
}
