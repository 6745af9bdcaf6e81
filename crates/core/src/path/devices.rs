//! Devices: they come, are set otherwise, and go.
//!
//! In:    what a device is like, and the scheduler in front of it.
//! Out:   ids.
//! Never: a lost request. All that wait for a device that goes are told.

use alloc::string::ToString as _;

use super::limit::WriteDepthLimiter;
use super::useful::WindowEstimator;
use super::write::WriteOutcome;
use super::{DeviceId, DeviceQueue, Fault, IoPath};
use crate::geometry::Geometry;
use crate::replay::{PathCall, PathOutput};
use crate::sched::{BadSetting, Choice};
use crate::units::{ByteCount, Nanos, SECTORS_PER_PAGE, Sectors};

impl IoPath {
    /// Adds a device, with a scheduler in front of it.
    pub fn add_device(&mut self, geometry: Geometry, scheduler: &Choice) -> DeviceId {
        self.add_device_on(None, geometry, scheduler)
    }

    /// The same, of what lies on a disk with others, if the number of that is known: what was
    /// learnt of one is where the next begins.
    pub fn add_device_on(
        &mut self,
        disk: Option<u64>,
        geometry: Geometry,
        scheduler: &Choice,
    ) -> DeviceId {
        self.log().did(|| PathCall::AddDevice { disk, geometry, scheduler: scheduler.clone() });
        let queue = scheduler.queue(Sectors(geometry.max_io.0 * SECTORS_PER_PAGE));
        let known = disk.and_then(|disk| self.disks.get(disk));
        let device = DeviceQueue {
            geometry,
            queue,
            in_flight: 0,
            writes: 0,
            is_busy: false,
            is_full: false,
            limiter: WriteDepthLimiter::default(),
            fit: None,
            useful: known.unwrap_or_else(|| WindowEstimator::new(&geometry)),
            disk,
            domain: None,
        };
        let id = self.devices.insert(device);
        self.log().gave(|| PathOutput::Device(id));
        id
    }

    /// Changes a setting of a device's scheduler, from its next decision on; `scheduler` itself is
    /// one: `noop`, or `deadline` with its limit of writes learnt. Of a device that is gone:
    /// nothing.
    ///
    /// # Errors
    ///
    /// If the scheduler has no such setting, or the value makes no sense for it.
    pub fn set_scheduler(
        &mut self,
        device: DeviceId,
        name: &str,
        value: &str,
    ) -> Result<(), BadSetting> {
        self.log().did(|| {
            let (name, value) = (name.to_string(), value.to_string());
            PathCall::SetScheduler { device, name, value }
        });
        if name == "scheduler" {
            return self.exchange_scheduler(device, value);
        }
        let Some(state) = self.devices.get_mut(device) else { return Ok(()) };
        state.queue.set(name, value)?;
        self.note_busy(device);
        Ok(())
    }

    /// Removes a device that no open file lies on. What was queued for it is dropped, and all that
    /// wait for it get [`Fault::Short`]; what it is working on still ends with [`Self::complete`].
    pub fn remove_device(&mut self, now: Nanos, id: DeviceId) {
        self.log().did(|| PathCall::RemoveDevice { now, device: id });
        self.clock = now;
        let Some(mut device) = self.devices.remove(id) else { return };
        self.full -= usize::from(device.is_full);
        for mut request in device.queue.drain() {
            self.end_direct(&mut request.load, request.start, ByteCount::ZERO, Fault::Short);
            let outcome = WriteOutcome::Unstable(ByteCount::ZERO, Fault::Short);
            self.end_writes(now, id, &mut request.load, outcome);
            let (origin, mut start) = (request.origin, request.start);
            for page in request.load.pages {
                let sectors = page.part.sectors();
                self.fail_fill(now, (id, origin, start), page, Fault::Short);
                start = start + sectors;
            }
        }
        self.leave_domain(device.domain);
        self.admit(now);
    }
}
