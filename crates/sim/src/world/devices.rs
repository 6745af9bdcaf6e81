//! What devices do by themselves, and what they are told.
//!
//! In:    a device whose time has come; readers that come to requests in flight.
//! Out:   ends of commands; when a device is to be woken next.
//! Never: a change of the path.

use foreread_core::path::DeviceId;
use foreread_core::units::Nanos;

use super::{SimDevice, SimEvent, SimWorld};

impl SimWorld {
    /// Lets a device do what it is time for.
    pub(super) fn wake_device(&mut self, now: Nanos, device: DeviceId) {
        let index = device.index() as usize;
        self.devices[index].wake_at = None;
        while self.devices[index].model.next_wake().is_some_and(|at| at <= now) {
            let end = self.devices[index].model.wake(now);
            self.schedule_end(device, end);
        }
        self.schedule_wake(now, device);
    }

    pub(super) fn schedule_wake(&mut self, now: Nanos, device: DeviceId) {
        let SimDevice { model, meter, wake_at } = &mut self.devices[device.index() as usize];
        meter.store = model.store_totals();
        let at = model.next_wake().filter(|at| wake_at.is_none_or(|scheduled| *at < scheduled));
        if let Some(at) = at {
            *wake_at = Some(at);
            self.clock.schedule(at.max(now), SimEvent::WakeDevice(device));
        }
    }

    /// Tells devices which of their commands a reader has come to.
    pub(super) fn tell_joined(&mut self, now: Nanos) {
        while let Some((device, tag)) = self.path.poll_joined() {
            self.devices[device.index() as usize].model.joined(now, tag);
            self.schedule_wake(now, device);
        }
    }
}
