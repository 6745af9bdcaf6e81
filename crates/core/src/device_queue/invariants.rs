//! Invariants between devices and their requests, which hold after each call.

use alloc::collections::BTreeMap;

use super::{DeviceId, DeviceQueues};
use crate::sched::Op;

impl DeviceQueues {
    /// Checks the devices' counts of requests in flight, with one step for each such request.
    pub(crate) fn assert_in_flight(&self) {
        // The last element counts requests already served, for which no completion was reported
        // yet.
        let mut counts: BTreeMap<DeviceId, [u32; 3]> = BTreeMap::new();
        for (_, request) in self.in_flight.iter() {
            let op = if request.served.is_some() { 2 } else { request.request.origin.op as usize };
            counts.entry(request.device).or_default()[op] += 1;
        }
        for (id, [reads, writes, served]) in counts {
            let Some(device) = self.devices.get(id) else { continue };
            let counted = [Op::Read, Op::Write].map(|op| device.limiter().in_flight(op));
            assert!(counted == [reads, writes], "{id:?} counts {counted:?} in flight");
            let slots = reads + writes + served;
            assert!(device.slots_taken() == slots, "{id:?} has a slot for each request");
        }
    }

    /// Checks the line for dispatch and the count of full devices.
    pub(crate) fn assert_consistent(&self) {
        self.assert_in_flight();
        for (id, device) in self.devices.iter() {
            let places = self.busy.iter().filter(|&&other| other == id).count();
            assert!(places == usize::from(device.is_busy), "{id:?} is {places} times in line");
            assert!(!device.is_busy || device.has_room(), "{id:?} is in line without room");
            assert!(!device.is_full || !device.is_queue_empty(), "{id:?} is full of nothing");
            let is_known = device.is_busy || device.is_full;
            assert!(
                device.is_queue_empty() || is_known,
                "{id:?} is forgotten with requests queued"
            );
            let in_flight = self.in_flight.iter().filter(|(_, it)| it.device == id);
            let parts = in_flight.map(|(_, it)| it.request.load.parts).sum::<u32>();
            assert!(parts <= device.flusher_requests, "{id:?} counts requests of the flusher");
        }
        let full = self.devices.iter().filter(|(_, device)| device.is_full).count();
        assert!(self.full == full, "{full} devices are full, and {} are counted", self.full);
    }
}
