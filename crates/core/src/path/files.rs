//! The calls of a path for files and devices: opened, changed under their readers, closed.
//!
//! In:    where a file is on its device; what became of it.
//! Out:   ids; pages forgotten; reads that wait for frames cut to what there is.
//! Never: a read lost. What is in flight ends, whatever becomes of its file meanwhile.

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
use crate::sched::{BadSetting, Choice};
use crate::table::FileSlot;
use crate::units::{ByteCount, MAX_FILE_BYTES, Nanos, PageIndex, Pages, Sector};

/// # Devices and files
impl IoPath {
    /// Adds a device, with a scheduler in front of it.
    ///
    /// # Panics
    ///
    /// If `geometry` says that the device takes no request, or none of a page.
    pub fn add_device(&mut self, geometry: Geometry, scheduler: &Choice) -> DeviceId {
        self.add_device_on(None, geometry, scheduler)
    }

    /// The same, of what lies on a disk with others, if the number of that is known: what was
    /// learnt of one is where the next begins.
    ///
    /// # Panics
    ///
    /// If `geometry` says that the device takes no request, or none of a page.
    pub fn add_device_on(
        &mut self,
        disk: Option<u64>,
        geometry: Geometry,
        scheduler: &Choice,
    ) -> DeviceId {
        assert!(geometry.depth > 0, "a device works on at least one request at a time");
        assert!(geometry.max_io > Pages::ZERO, "a request has at least one page");
        self.did(|| PathCall::AddDevice { disk, geometry, scheduler: scheduler.clone() });
        let id = self.read_path.devices.add(geometry, scheduler, disk);
        self.read_path.prefetch.add_device(id.index(), &geometry, disk);
        self.gave(|| PathOutput::Device(id));
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
        self.did(|| {
            let (name, value) = (name.to_string(), value.to_string());
            PathCall::SetScheduler { device, name, value }
        });
        self.read_path.devices.set_scheduler(device, name, value)
    }

    /// The settings of a device's scheduler as they are now, its own name first. Each can be given
    /// to [`Self::set_scheduler`]. Of a device that is gone: none.
    #[must_use]
    pub fn scheduler_settings(&self, device: DeviceId) -> Vec<(&'static str, String)> {
        self.read_path.devices.scheduler_settings(device)
    }

    /// What a device is doing and what is known of it. None if it is gone.
    #[must_use]
    pub fn device_state(&self, device: DeviceId) -> Option<DeviceState> {
        self.read_path.devices.state(device)
    }

    /// What is known of how a device reads. None if it is gone, or too little was read of it.
    #[must_use]
    pub fn device_model(&self, device: DeviceId) -> Option<DeviceModel> {
        self.read_path.devices.get(device)?.estimator()?.model()
    }

    /// What reads of a device cost: as [`Self::device_model`] says, and before that is known as
    /// [another run](Self::restore_device) has learnt it. `parallel` is how many requests were seen
    /// to be served at once, if there may be more. None if the device is gone, or nothing is known.
    #[must_use]
    pub fn expected_model(&self, device: DeviceId) -> Option<DeviceModel> {
        let estimator = self.read_path.devices.get(device)?.estimator();
        self.read_path.prefetch.device_model(device.index(), estimator)
    }

    /// What was learnt of a device, for the next run of a program: its cost too, if that is known.
    /// None before anything is, or if the device is gone.
    ///
    /// With the learnt window alone a device would have to be measured again; with its cost,
    /// [`Self::restore_device`] can tell whether it is the same one.
    #[must_use]
    pub fn learnt_device(&self, device: DeviceId) -> Option<LearntDevice> {
        self.read_path.devices.get(device)?;
        self.read_path.prefetch.learnt_device(device.index())
    }

    /// Begins with what [another run](Self::learnt_device) has learnt of a device, instead of
    /// measuring it: right after [`Self::add_device`]. Its first requests check it, and eight in a
    /// row that contradict it end it. What this path has learnt of the same disk counts more. What
    /// is not [plausible](LearntDevice::is_plausible) is ignored.
    ///
    /// ```
    /// # use foreread_core::geometry::Geometry;
    /// # use foreread_core::path::{Config, IoPath};
    /// # use foreread_core::prefetch::{LearntDevice, Policy, Rules};
    /// # use foreread_core::sched::Choice;
    /// # use foreread_core::units::{ByteCount, Pages};
    /// # let (memory, policy) = (ByteCount(16 << 20), Policy::Adaptive);
    /// # let max_window = Config::AUTO_WINDOW;
    /// # let rules = Rules::default();
    /// # let mut path = IoPath::new(Config { memory, policy, max_window, rules });
    /// let device = path.add_device(Geometry::new(ByteCount(1 << 30)), &Choice::Noop);
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
            let place = (&queue.geometry, queue.disk);
            self.read_path.prefetch.restore_device(device.index(), place, &learnt);
        }
    }

    /// Removes a device that no open file lies on. What was queued for it is dropped, and all that
    /// wait for it get [`Fault::Short`]; what it is working on still ends with [`Self::complete`].
    ///
    /// # Panics
    ///
    /// In debug builds, if an open file lies on it.
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
                read_path.fail_fill(now, source, page, (Fault::Short, 0));
                writeback.tell_woken(read_path);
                start = start + sectors;
            }
        }
        writeback.leave_domain(device.domain);
        self.make_progress(now);
    }

    /// Opens a file of `len` bytes that begins at the start of the device and lies there in one
    /// run. None if too many files are open.
    pub fn open(&mut self, device: DeviceId, len: ByteCount) -> Option<FileId> {
        self.open_at(device, Sector(0), len)
    }

    /// The same for a file that begins elsewhere: several may lie on one device.
    ///
    /// # Panics
    ///
    /// If there is no such device, or no file may be so long.
    pub fn open_at(&mut self, device: DeviceId, start: Sector, len: ByteCount) -> Option<FileId> {
        self.did(|| PathCall::Open { device, start, len });
        let id = self.open_location(device, FileLocation::Contiguous(start), len).ok();
        self.gave(|| PathOutput::File(id));
        id
    }

    /// Opens a read-only file of `len` bytes whose pages lie where its extent map says.
    ///
    /// A page may lie anywhere, or in several places, and is asked for with as many requests. Of
    /// holes the driver makes zeros: see [`Self::fill_holes`]. What the map names behind the end
    /// of the device fails with [`Fault::Short`].
    ///
    /// # Errors
    ///
    /// If too many files are open, or if the extent maps of open files would take more than a
    /// sixteenth of the memory bound, which they take beside it.
    ///
    /// # Panics
    ///
    /// If there is no such device, or no file may be so long.
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

    /// How much the extent maps of all open files may take together.
    #[must_use]
    pub fn extent_maps_limit(&self) -> ByteCount {
        self.read_path.files.extent_maps_limit()
    }

    /// Closes a file: its streams end and its pages leave the cache.
    ///
    /// ```text
    ///   its reads              what becomes of them
    ///   that wait for frames   end now, with a length of 0
    ///   on their way           end as they would have
    /// ```
    ///
    /// Dirty pages are dropped: to keep them, [flush](Self::flush) first. Writes and flushes that
    /// wait end now, with [`Fault::Short`]; those whose driver copies or acts
    /// end when it is done.
    ///
    /// The file itself goes with the last of them that is released: until then its
    /// [slot](Self::slot) is no other file's. Nothing else may be done with a closed file; to close
    /// it again does nothing.
    pub fn close(&mut self, now: Nanos, file: FileId) {
        self.did(|| PathCall::Close { now, file });
        let Self { read_path, writeback, .. } = self;
        read_path.count_runs_of_closed(file);
        let Some(len) = read_path.files.close(file) else { return };
        read_path.prefetch.close_file(slot_of(file));
        // It must not go before all is done.
        read_path.files.begin_work(file);
        writeback.close_file(read_path, file);
        read_path.page_in.cache.forget_file(slot_of(file), len.pages_up());
        read_path.cover_queued(file, ByteCount::ZERO);
        read_path.files.end_work(file);
        writeback.end_file_if_over(read_path, file);
        self.make_progress(now);
    }

    /// The file has another length now: another program has changed it. A driver that changes
    /// lengths itself calls [`Self::change_len`].
    ///
    /// ```text
    ///   grew     |=====|=====|==   |              |=====|=====|.....|.....|..
    ///                         ^ the page at the old end is forgotten: it has more bytes now
    ///
    ///   shrank   |=====|=====|=====|==            |=====|==...|
    ///                     ^ from the page at the new end on all are forgotten: if the file grows
    ///                       again, zeros follow, and not what was there
    /// ```
    ///
    /// Reads that wait for frames are cut to the new length, and end with a length of 0 if they
    /// start behind it. Reads in flight end at the new end, too. One that came there before this
    /// call is [`Fault::Short`]: the caller reads again.
    ///
    /// Dirty pages behind the new end are dropped, and no flush waits for them; the others stay as
    /// they are. A device write in flight is not cancelled: the caller flushes a written file
    /// before it cuts it.
    ///
    /// # Panics
    ///
    /// If the file is closed, or no file may be so long.
    pub fn set_len(&mut self, now: Nanos, file: FileId, len: ByteCount) {
        assert!(len <= MAX_FILE_BYTES, "a file of {len} bytes");
        self.did(|| PathCall::SetLen { now, file, len });
        let Self { read_path, writeback, .. } = self;
        if read_path.files.open_file(file).len != len {
            writeback.set_len(read_path, file, len, false);
            self.make_progress(now);
        }
    }

    /// These pages of the file are out of date, or not needed any more: they leave the cache. Reads
    /// on their way are not disturbed, and later ones ask the device. Pages that are dirty or being
    /// written stay: the device has nothing newer. Of a closed file: nothing.
    pub fn invalidate(&mut self, now: Nanos, file: FileId, pages: Range<PageIndex>) {
        self.did(|| PathCall::Invalidate { now, file, pages: pages.clone() });
        if self.read_path.files.get(file).is_none() || pages.start >= pages.end {
            return;
        }
        self.writeback.forget_clean(&mut self.read_path, file, pages, true);
        self.make_progress(now);
    }

    /// The pages that lie wholly in `len` bytes at `pos`: what goes when the application says that
    /// it does not need those any more.
    ///
    /// ```text
    ///   bytes        |-----------------------|         a part of a page may be needed by others
    ///   pages   |......|=======|=======|.......|
    ///
    ///   at the end   |------------------|              of the last page there is no other part
    ///   pages   |......|=======|========|
    /// ```
    ///
    /// # Panics
    ///
    /// If the file is closed and gone.
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

    /// Where the file is found in the [`Self::table`].
    #[must_use]
    pub fn slot(file: FileId) -> FileSlot {
        slot_of(file)
    }
}
