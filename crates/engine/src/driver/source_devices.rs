//! Sources that share a device, such as one host with one limit on concurrent requests. The core
//! sees them as files on one device, separated by an unused page so that requests of neighbours
//! never merge.
//!
//! ```text
//!   device    |==== source ====|.|== source ==|.|======== source ========|.
//!   offset    start            ^ a page that is none's
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foreread_core::geometry::Geometry;
use foreread_core::path::{DeviceId, FileId};
use foreread_core::sched::SchedulerKind;
use foreread_core::units::{ByteCount, PAGE_SIZE, SECTOR_SIZE, Sector};

use super::{Driver, OpenDevice};
use crate::backend::Backend;

/// Devices shared by sources, by the number of the device name the sources give.
#[derive(Debug, Default)]
pub(crate) struct SourceDevices(HashMap<u64, SourceDevice>);

#[derive(Debug)]
struct SourceDevice {
    id: DeviceId,
    /// Files by start offset.
    files: BTreeMap<u64, (FileId, Arc<Backend>)>,
    /// Start offset of the next source.
    next: u64,
}

impl SourceDevices {
    fn by_id(&mut self, id: DeviceId) -> Option<(u64, &mut SourceDevice)> {
        self.0.iter_mut().find(|(_, it)| it.id == id).map(|(disk, it)| (*disk, it))
    }
}

impl Driver {
    /// Opens a source on the device it names. Returns `None` if it is too long to share one, and
    /// `Some(None)` if too many files are open.
    pub(super) fn open_on_source_device(
        &mut self,
        disk: u64,
        backend: &Arc<Backend>,
        len: ByteCount,
        scheduler: &SchedulerKind,
    ) -> Option<Option<(DeviceId, FileId)>> {
        let start = self.source_devices.0.get(&disk).map_or(0, |it| it.next);
        let next = start.checked_add(len.pages_up().0 * PAGE_SIZE + PAGE_SIZE)?;
        if len > LONGEST || next > END {
            return None;
        }
        let id = match self.source_devices.0.get(&disk) {
            Some(device) => device.id,
            None => {
                // The length of one source has no bearing on the device.
                let depth = backend.geometry.depth;
                let geometry = Geometry { depth, ..Geometry::new(ByteCount::ZERO) };
                let id = self.path.add_device_on(Some(disk), geometry, scheduler);
                let device = SourceDevice { id, files: BTreeMap::new(), next };
                self.source_devices.0.insert(disk, device);
                self.devices.insert(id, OpenDevice { backend: Arc::clone(backend), delay: None });
                id
            }
        };
        let file = self.path.open_at(id, Sector(start / SECTOR_SIZE), len);
        let device = self.source_devices.0.get_mut(&disk).expect("it was found or made");
        if let Some(file) = file {
            device.files.insert(start, (file, Arc::clone(backend)));
            device.next = next;
        } else {
            self.remove_unused_source_device(disk);
        }
        Some(file.map(|file| (id, file)))
    }

    /// Closes a source on a shared device. Returns false if its device is not shared.
    pub(super) fn close_on_source_device(&mut self, id: DeviceId, file: FileId) -> bool {
        let Some((disk, device)) = self.source_devices.by_id(id) else { return false };
        device.files.retain(|_, (other, _)| *other != file);
        if self.broken.is_none() {
            let now = self.now();
            self.path.close(now, file);
        }
        self.remove_unused_source_device(disk);
        true
    }

    fn remove_unused_source_device(&mut self, disk: u64) {
        let device = &self.source_devices.0[&disk];
        let id = device.id;
        if let Some((_, backend)) = device.files.values().next() {
            let known = self.devices.get_mut(&id).expect("a device with open files is known");
            known.backend = Arc::clone(backend);
            return;
        }
        self.source_devices.0.remove(&disk);
        self.devices.remove(&id);
        if self.broken.is_none() {
            let now = self.now();
            self.path.remove_device(now, id);
        }
    }

    /// Returns the source at an offset of a device, and its start offset. Returns `None` if the
    /// source is closed.
    pub(super) fn source_at(&mut self, id: DeviceId, offset: u64) -> Option<(Arc<Backend>, u64)> {
        let Some((_, device)) = self.source_devices.by_id(id) else {
            let own = self.devices.get(&id)?;
            return Some((Arc::clone(&own.backend), 0));
        };
        let (start, (_, backend)) = device.files.range(..=offset).next_back()?;
        (offset - start < backend.len.0).then(|| (Arc::clone(backend), *start))
    }
}

/// Longest source that may share a device.
const LONGEST: ByteCount = ByteCount(1 << 50);

/// End of a shared device: room for 8192 of the longest sources, or 2^43 of a megabyte.
const END: u64 = 1 << 63;
