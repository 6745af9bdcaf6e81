//! Direct requests: a run of sectors, read or written past the cache.
//!
//! In:    a range, a direction, a submitter.
//! Out:   a request in the queue of its device, beside those of the cache; what became of it.
//! Never: a page of the cache, or a byte: what is moved, and where to, is the driver's.
//!
//! For callers with a cache of their own, and for writes past the cache: they share the device with
//! the cache's requests, and the scheduler decides between them.

use alloc::vec::Vec;
use core::mem;

use super::job::IoPayload;
use super::{DeviceId, Fault, IoPath};
use crate::replay::{PathCall, PathOutput};
use crate::sched::{Origin, Request};
use crate::slab::Id;
use crate::units::{ByteCount, Nanos, Sector, Sectors};

/// Names a direct request.
pub type DirectId = Id<Direct>;

/// A direct request on its way.
#[derive(Debug)]
pub struct Direct {
    start: Sector,
    sectors: Sectors,
}

/// A direct request has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DirectDone {
    /// Which.
    pub id: DirectId,
    /// What went wrong, if anything.
    pub fault: Option<Fault>,
}

impl IoPath {
    /// Queues a request for `sectors` sectors from `start` on. Neighbours may be merged on the way:
    /// each is told of on its own by [`Self::poll_done`].
    ///
    /// # Panics
    ///
    /// If there is no such device, or if it is for nothing, or for more than the device takes at
    /// once.
    pub fn direct(
        &mut self,
        now: Nanos,
        device: DeviceId,
        start: Sector,
        sectors: Sectors,
        origin: Origin,
    ) -> DirectId {
        self.log().did(|| PathCall::Direct { now, device, start, sectors, origin });
        let id = self.directs.insert(Direct { start, sectors });
        let state = self.devices.get_mut(device).expect("the device is there");
        assert!(sectors > Sectors::ZERO, "a request is for something");
        let load = IoPayload { direct: Vec::from([id]), ..IoPayload::default() };
        state.queue.add(now, Request { start, sectors, origin, arrival: now, load });
        self.note_busy(device);
        self.log().gave(|| PathOutput::Direct(id));
        id
    }

    /// The next direct request that has ended.
    pub fn poll_done(&mut self) -> Option<DirectDone> {
        self.log().did(|| PathCall::PollDone);
        let done = self.done.pop_front();
        self.log().gave(|| PathOutput::Done(done));
        done
    }

    /// A request ended with so many bytes: which of the direct requests in it are served.
    ///
    /// ```text
    ///   |== first ==|=== second ===|= third =|      of the merged request
    ///   |<------- bytes ------->|                   first: served; the others: cut short
    /// ```
    pub(super) fn end_direct(
        &mut self,
        job: &mut IoPayload,
        start: Sector,
        bytes: ByteCount,
        fault: Fault,
    ) {
        for id in mem::take(&mut job.direct) {
            let Direct { start: own, sectors } = self.directs.remove(id).expect("it ends once");
            let served = (own - start).bytes() + sectors.bytes() <= bytes;
            self.done.push_back(DirectDone { id, fault: (!served).then_some(fault) });
        }
    }
}
