//! Wake-ups of devices, and notifications to them that a reader joined a request in flight.

use foreread_core::path::DeviceId;
use foreread_core::units::Nanos;

use super::{SimDevice, SimEvent, SimWorld};

impl SimWorld {
    /// Wakes a device until no wake-up is due.
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

    /// Notifies devices of the commands that a reader has joined.
    pub(super) fn tell_joined(&mut self, now: Nanos) {
        while let Some((device, tag)) = self.path.poll_joined() {
            self.devices[device.index() as usize].model.joined(now, tag);
            self.schedule_wake(now, device);
        }
    }
}
