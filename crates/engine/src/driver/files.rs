//! Opens and closes files in the core. A file is its own device, or is part of an open one. A
//! device is removed only after its files.

use std::sync::Arc;

use foreread_core::path::{DeviceId, ExtentMap, FileId, OpenError};
use foreread_core::sched::SchedulerKind;
use foreread_core::units::ByteCount;

use super::{Driver, OpenDevice};
use crate::backend::Backend;
use crate::delay::{Delay, DelayModel};

impl Driver {
    /// Registers a file as a separate device, because the disk blocks below it are unknown. Sources
    /// that name the same device share one. Returns `None` if too many files are open.
    pub(crate) fn open(
        &mut self,
        backend: &Arc<Backend>,
        len: ByteCount,
        delay: Option<Delay>,
        scheduler: &SchedulerKind,
    ) -> Option<(DeviceId, FileId)> {
        let shared = backend.source().and_then(|source| source.disk);
        if let Some(disk) = shared
            && let Some(opened) = self.open_on_source_device(disk, backend, len, scheduler)
        {
            return opened;
        }
        // A delayed file behaves differently from others on the same disk.
        let disk = backend.disk().filter(|_| delay.is_none());
        let device = self.path.add_device_on(disk, backend.geometry, scheduler);
        let Some(file) = self.path.open(device, len) else {
            self.path.remove_device(self.now(), device);
            return None;
        };
        let backend = Arc::clone(backend);
        self.devices.insert(device, OpenDevice { backend, delay: delay.map(DelayModel::new) });
        Some((device, file))
    }

    /// Opens an extent-mapped file of an open device.
    pub(crate) fn open_extents(
        &mut self,
        device: DeviceId,
        len: ByteCount,
        map: Arc<ExtentMap>,
    ) -> Result<FileId, OpenError> {
        self.path.open_extents(device, len, map)
    }

    /// Closes an extent-mapped file. Its device stays open.
    pub(crate) fn close_extents(&mut self, file: FileId) {
        if self.broken.is_none() {
            self.path.close(self.now(), file);
            self.note_ready();
            self.start_all();
        }
    }

    /// Closes a file. Reads in flight finish on their own.
    pub(crate) fn close(&mut self, device: DeviceId, file: FileId) {
        if self.close_on_source_device(device, file) {
            if self.broken.is_none() {
                self.note_ready();
                self.start_all();
            }
            return;
        }
        if self.broken.is_some() {
            // Reads that will never complete still hold frames of the file, so leave the core
            // alone.
            self.devices.remove(&device);
            return;
        }
        let now = self.now();
        self.path.close(now, file);
        self.path.remove_device(now, device);
        self.devices.remove(&device);
        self.note_ready();
        self.start_all();
    }

    /// Returns the memory limit for all extent maps together.
    pub(crate) fn extent_maps_limit(&self) -> ByteCount {
        self.path.extent_maps_limit()
    }
}
