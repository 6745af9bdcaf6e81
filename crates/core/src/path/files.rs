//! Calls for files and devices: opening, changing and closing them under their readers. A read in
//! flight always ends, even if its file is cut or closed in the meantime.

use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use super::IoPath;
use crate::call_log::steps::{PathCall, PathOutput};
use crate::device_model::DeviceModel;
use crate::device_queue::DeviceState;
use crate::driver_io::Fault;
use crate::extent_map::{ExtentMap, FileLocation, OpenError};
use crate::geometry::Geometry;
use crate::ids::{DeviceId, FileId, slot_of};
use crate::prefetch::LearntDevice;
use crate::read_path::completion::PageSource;
use crate::sched::{InvalidSetting, SchedulerKind};
use crate::table::FileSlot;
use crate::units::{ByteCount, MAX_FILE_BYTES, Nanos, PageIndex, Pages, Sector};

/// # Devices and files
impl IoPath {
    /// Adds a device with its own scheduler.
    ///
    /// # Panics
    ///
    /// If `geometry` allows no request in flight, or none as large as a page.
    pub fn add_device(&mut self, geometry: Geometry, scheduler: &SchedulerKind) -> DeviceId {
        self.add_device_on(None, geometry, scheduler)
    }

    /// Adds a device that shares disk number `disk` with others, if known. Values learnt for one of
    /// them are the starting point of the next.
    ///
    /// # Panics
    ///
    /// If `geometry` allows no request in flight, or none as large as a page.
    pub fn add_device_on(
        &mut self,
        disk: Option<u64>,
        geometry: Geometry,
        scheduler: &SchedulerKind,
    ) -> DeviceId {
        assert!(geometry.depth > 0, "a device works on at least one request at a time");
        assert!(geometry.max_io > Pages::ZERO, "a request has at least one page");
        self.did(|| PathCall::AddDevice { disk, geometry, scheduler: scheduler.clone() });
        let id = self.read_path.devices.add(geometry, scheduler, disk);
        self.read_path.prefetch.add_device(id.index(), &geometry, disk);
        self.gave(|| PathOutput::Device(id));
        id
    }

    /// Changes a setting of a device's scheduler, from its next decision on. `scheduler` itself is
    /// a setting: `noop`, or `deadline` with its limit of writes learnt. Does nothing if the device
    /// has been removed.
    ///
    /// # Errors
    ///
    /// If the scheduler has no such setting or rejects the value.
    pub fn set_scheduler(
        &mut self,
        device: DeviceId,
        name: &str,
        value: &str,
    ) -> Result<(), InvalidSetting> {
        self.did(|| {
            let (name, value) = (name.to_string(), value.to_string());
            PathCall::SetScheduler { device, name, value }
        });
        self.read_path.devices.set_scheduler(device, name, value)
    }

    /// Returns the current settings of a device's scheduler, its name first. Each can be passed to
    /// [`Self::set_scheduler`]. Empty if the device has been removed.
    #[must_use]
    pub fn scheduler_settings(&self, device: DeviceId) -> Vec<(&'static str, String)> {
        self.read_path.devices.scheduler_settings(device)
    }

    /// Returns the queue and model of a device. None if it has been removed.
    #[must_use]
    pub fn device_state(&self, device: DeviceId) -> Option<DeviceState> {
        self.read_path.devices.state(device)
    }

    /// Returns the measured read cost of a device. None if it has been removed, or too few reads
    /// were measured.
    #[must_use]
    pub fn device_model(&self, device: DeviceId) -> Option<DeviceModel> {
        self.read_path.devices.get(device)?.estimator()?.model()
    }

    /// Returns the expected read cost of a device: that of [`Self::device_model`], or until it is
    /// measured, the cost restored from [another run](Self::restore_device). If the device may
    /// serve more requests at once than were seen, `parallel` is the number seen. None if the
    /// device has been removed or nothing is known.
    #[must_use]
    pub fn expected_model(&self, device: DeviceId) -> Option<DeviceModel> {
        let estimator = self.read_path.devices.get(device)?.estimator();
        self.read_path.prefetch.device_model(device.index(), estimator)
    }

    /// Returns the values learnt about a device, to be stored for the program's next run, including
    /// its cost if known. None if nothing was learnt yet, or the device has been removed.
    ///
    /// The cost lets [`Self::restore_device`] check that the device is still the same. With the
    /// window alone, the device would have to be measured again.
    #[must_use]
    pub fn learnt_device(&self, device: DeviceId) -> Option<LearntDevice> {
        self.read_path.devices.get(device)?;
        self.read_path.prefetch.learnt_device(device.index())
    }

    /// Starts a device with the values that [another run](Self::learnt_device) has learnt, instead
    /// of measuring it; call it right after [`Self::add_device`]. The first requests check these
    /// values, and eight contradictions in a row discard them. Values that this path has learnt
    /// about the same disk take precedence. Values that are not
    /// [plausible](LearntDevice::is_plausible) are ignored.
    ///
    /// ```
    /// # use foreread_core::geometry::Geometry;
    /// # use foreread_core::path::{Config, IoPath};
    /// # use foreread_core::prefetch::{LearntDevice, Policy, Rules};
    /// # use foreread_core::sched::SchedulerKind;
    /// # use foreread_core::units::{ByteCount, Pages};
    /// # let (memory, policy) = (ByteCount(16 << 20), Policy::Adaptive);
    /// # let max_window = Config::AUTO_WINDOW;
    /// # let rules = Rules::default();
    /// # let mut path = IoPath::new(Config { memory, policy, max_window, rules });
    /// let device = path.add_device(Geometry::new(ByteCount(1 << 30)), &SchedulerKind::Noop);
    /// let before = LearntDevice { window: Pages(512), cost: None };
    /// path.restore_device(device, before);
    /// assert_eq!(path.learnt_device(device), None, "nothing has checked it yet");
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such device.
    pub fn restore_device(&mut self, device: DeviceId, learnt: LearntDevice) {
        self.did(|| PathCall::RestoreDevice { device, learnt });
        let queue = self.read_path.devices.get(device).expect("a device that was added");
        if learnt.is_plausible() {
            let (prefetch, geometry) = (&mut self.read_path.prefetch, &queue.geometry);
            prefetch.restore_device(device.index(), geometry, queue.disk, &learnt);
        }
    }

    /// Removes a device without open files. Queued requests are dropped, and their waiters get
    /// [`Fault::Short`]. Requests in flight still end with [`Self::complete`].
    ///
    /// # Panics
    ///
    /// In debug builds, if it has open files.
    pub fn remove_device(&mut self, now: Nanos, id: DeviceId) {
        debug_assert!(!self.has_files_on(id), "an open file lies on {id:?}");
        self.did(|| PathCall::RemoveDevice { now, device: id });
        let Self { read_path, writeback, direct, .. } = self;
        read_path.clock = now;
        let Some((device, queued)) = read_path.devices.remove(id) else { return };
        for mut request in queued {
            direct.end(&mut request.load, request.start, ByteCount::ZERO, Fault::Short);
            writeback.end_unsent(read_path, now, id, &mut request.load);
            let (origin, mut start) = (request.origin, request.start);
            for page in request.load.pages {
                let sectors = page.part.sectors();
                let source = PageSource { device: id, origin, start };
                read_path.fail_fill(now, source, page, Fault::Short, 0);
                writeback.tell_woken(read_path);
                start = start + sectors;
            }
        }
        writeback.leave_domain(device.domain);
        self.make_progress(now);
    }

    /// Opens a file of `len` bytes that is contiguous from the start of the device. None if too
    /// many files are open.
    pub fn open(&mut self, device: DeviceId, len: ByteCount) -> Option<FileId> {
        self.open_at(device, Sector(0), len)
    }

    /// Opens a contiguous file that begins at `start`; a device may contain several.
    ///
    /// # Panics
    ///
    /// If there is no such device, or `len` exceeds the largest file.
    pub fn open_at(&mut self, device: DeviceId, start: Sector, len: ByteCount) -> Option<FileId> {
        self.did(|| PathCall::Open { device, start, len });
        let id = self.open_location(device, FileLocation::Contiguous(start), len).ok();
        self.gave(|| PathOutput::File(id));
        id
    }

    /// Opens a read-only file of `len` bytes, mapped to its device by extents.
    ///
    /// A page may be anywhere on the device, or in several places, and takes one request for each.
    /// The driver zeroes the holes; see [`Self::fill_holes`]. Reads of extents past the end of the
    /// device fail with [`Fault::Short`].
    ///
    /// # Errors
    ///
    /// If too many files are open, or if the extent maps of open files would take more than a
    /// sixteenth of the memory bound. Their memory is not part of the bound.
    ///
    /// # Panics
    ///
    /// If there is no such device, or `len` exceeds the largest file.
    pub fn open_extents(
        &mut self,
        device: DeviceId,
        len: ByteCount,
        map: Arc<ExtentMap>,
    ) -> Result<FileId, OpenError> {
        self.did(|| {
            let map = Arc::clone(&map);
            PathCall::OpenExtents { device, len, map }
        });
        let opened = self.open_location(device, FileLocation::Extents(map), len);
        self.gave(|| PathOutput::File(opened.ok()));
        opened
    }

    fn open_location(
        &mut self,
        device: DeviceId,
        location: FileLocation,
        len: ByteCount,
    ) -> Result<FileId, OpenError> {
        assert!(self.has_device(device), "{device:?} is no device");
        assert!(len <= MAX_FILE_BYTES, "a file of {len} bytes");
        let file = self.read_path.files.open(device, location, len)?;
        self.read_path.prefetch.open_file(slot_of(file));
        Ok(file)
    }

    /// Returns the limit of the memory for the extent maps of all open files.
    #[must_use]
    pub fn extent_maps_limit(&self) -> ByteCount {
        self.read_path.files.extent_maps_limit()
    }

    /// Closes a file: its streams end, and its pages leave the cache.
    ///
    /// ```text
    ///   its reads              outcome
    ///   waiting for frames     end now, with a length of 0
    ///   in flight              end as they would have
    /// ```
    ///
    /// Dirty pages are dropped; [flush](Self::flush) first to keep them. Waiting writes and flushes
    /// end now with [`Fault::Short`]; those whose driver is copying or acting end when it is done.
    ///
    /// The file itself is removed when the last of them is released. Until then its
    /// [slot](Self::slot) is not reused. A closed file accepts no other call; closing it again does
    /// nothing.
    pub fn close(&mut self, now: Nanos, file: FileId) {
        self.did(|| PathCall::Close { now, file });
        let Self { read_path, writeback, .. } = self;
        read_path.count_runs_of_closed(file);
        let Some(len) = read_path.files.close(file) else { return };
        read_path.prefetch.close_file(slot_of(file));
        // Keep the file until the end of this call.
        read_path.files.begin_work(file);
        writeback.close_file(read_path, file);
        read_path.page_in.cache.forget_file(slot_of(file), len.pages_up());
        read_path.cover_queued(file, ByteCount::ZERO);
        read_path.files.end_work(file);
        writeback.end_file_if_over(read_path, file);
        self.make_progress(now);
    }

    /// Sets a new length after another program has changed the file. A driver that changes lengths
    /// itself calls [`Self::change_len`].
    ///
    /// ```text
    ///   grew     |=====|=====|==   |              |=====|=====|.....|.....|..
    ///                         ^ the page at the old end is forgotten: it has more bytes now
    ///
    ///   shrank   |=====|=====|=====|==            |=====|==...|
    ///                     ^ all pages from the new end on are forgotten: if the file grows
    ///                       again, zeros follow instead of the old bytes
    /// ```
    ///
    /// Reads that wait for frames are cut to the new length, and end with a length of 0 if they
    /// start behind it. Reads in flight also end at the new end. A read that reached the missing
    /// bytes before this call gets [`Fault::Short`], and the caller reads again.
    ///
    /// Dirty pages behind the new end are dropped, and no flush waits for them; others are not
    /// affected. A device write in flight is not cancelled, so the caller flushes a written file
    /// before cutting it.
    ///
    /// # Panics
    ///
    /// If the file is closed, or `len` exceeds the largest file.
    pub fn set_len(&mut self, now: Nanos, file: FileId, len: ByteCount) {
        assert!(len <= MAX_FILE_BYTES, "a file of {len} bytes");
        self.did(|| PathCall::SetLen { now, file, len });
        let Self { read_path, writeback, .. } = self;
        if read_path.files.open_file(file).len != len {
            writeback.set_len(read_path, file, len, false);
            self.make_progress(now);
        }
    }

    /// Removes pages of the file from the cache because they are out of date or no longer needed.
    /// Reads in flight continue, and later reads go to the device. Pages that are dirty or being
    /// written stay, because the device has nothing newer. Does nothing if the file is closed.
    pub fn invalidate(&mut self, now: Nanos, file: FileId, pages: Range<PageIndex>) {
        self.did(|| PathCall::Invalidate { now, file, pages: pages.clone() });
        if self.read_path.files.get(file).is_none() || pages.start >= pages.end {
            return;
        }
        self.writeback.forget_clean(&mut self.read_path, file, pages, true);
        self.make_progress(now);
    }

    /// Returns the pages that are entirely within `len` bytes at `pos`: the ones to drop when the
    /// application no longer needs these bytes.
    ///
    /// ```text
    ///   bytes        |-----------------------|         part of a page may still be needed
    ///   pages   |......|=======|=======|.......|
    ///
    ///   at the end   |------------------|              the last page has no other part
    ///   pages   |......|=======|========|
    /// ```
    ///
    /// # Panics
    ///
    /// If the file is closed and removed.
    #[must_use]
    pub fn whole_pages(&self, file: FileId, pos: ByteCount, len: ByteCount) -> Range<PageIndex> {
        let end_of_file =
            self.read_path.files.get(file).expect("the caller names a file that is not gone").len;
        let start = PageIndex(pos.min(end_of_file).pages_up().0);
        let rest = end_of_file - pos.min(end_of_file);
        let end =
            if len >= rest { PageIndex(end_of_file.pages_up().0) } else { (pos + len).page() };
        let end = end.max(start);
        assert!(end.0 <= end_of_file.pages_up().0, "whole pages end with the file");
        start..end
    }

    /// Returns the file's slot in the [`Self::table`].
    #[must_use]
    pub fn slot(file: FileId) -> FileSlot {
        slot_of(file)
    }
}
