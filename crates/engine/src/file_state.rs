//! Open file of the engine, shared by all of its handles. Caches the length, and invalidates pages
//! that are out of date.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use foreread_core::path::{self, DeviceId, ExtentMap, FileId, IoPath};
use foreread_core::prefetch::LearntDevice;
use foreread_core::table::FileSlot;
use foreread_core::units::{ByteCount, PAGE_SIZE, PageIndex, Pages};

use crate::OpenOptions;
use crate::backend::{Backend, WriterClaim};
use crate::engine_state::EngineState;
use crate::error::{ForkedError, OpenError, OpenErrorKind};

/// Open file of the engine, however many handles it has.
#[derive(Debug)]
pub(crate) struct FileState {
    /// Keeps other engines of this process from writing the file. Declared first, so that it is
    /// dropped before the descriptor closes: the system may then reuse the number of a removed
    /// file.
    writer: OnceLock<Arc<WriterClaim>>,
    pub(crate) engine: Arc<EngineState>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) id: FileId,
    pub(crate) slot: FileSlot,
    pub(crate) device: DeviceId,
    /// Device and extents of an extent-mapped file.
    pub(crate) mapping: Option<ExtentMapping>,
    /// Cached length. [`Self::refresh`] updates it from the system. Only the driver changes it.
    len: AtomicU64,
    /// Held while querying the length, so that the latest of two answers wins.
    asking: Mutex<()>,
    /// Open for writing, or about to be. Changes only while the table of open files is locked.
    is_to_be_written: AtomicBool,
    /// Name under which its device is recorded, if it is.
    #[cfg(feature = "remember")]
    pub(crate) record_name: Option<String>,
}

/// Location of an extent-mapped file.
#[derive(Debug)]
pub(crate) struct ExtentMapping {
    /// Keeps the device open while the file is.
    device: Arc<FileState>,
    map: Arc<ExtentMap>,
}

/// Reason why the engine rejected a file that the system has opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotOpened {
    /// This engine has the file open in another way, and one of the two opens is for writing.
    Conflict,
    /// Too many files are open.
    TooMany,
    /// This process is a forked child of the engine's.
    Forked,
    /// Another engine of this process has the file open for writing.
    AnotherEngine,
    /// The extent maps have reached this memory limit.
    ExtentMaps(ByteCount),
    /// The system did not report the length, and returned this error number.
    NoLength(i32),
}

impl NotOpened {
    /// Converts to the error for the caller that opened `path`.
    pub(crate) fn of(self, path: &Path) -> OpenError {
        let path = path.to_path_buf();
        match self {
            Self::Conflict => OpenErrorKind::Overlap.of(path),
            Self::TooMany => OpenErrorKind::TooMany.of(path),
            Self::AnotherEngine => OpenErrorKind::AnotherEngine.of(path),
            Self::Forked => OpenErrorKind::Forked.of(path),
            Self::ExtentMaps(limit) => OpenErrorKind::ManyExtents { limit }.of(path),
            Self::NoLength(errno) => {
                let source = io::Error::from_raw_os_error(errno);
                OpenErrorKind::Io { doing: "ask the size", source }.of(path)
            }
        }
    }
}

impl From<ForkedError> for NotOpened {
    fn from(_: ForkedError) -> Self {
        Self::Forked
    }
}

impl From<path::OpenError> for NotOpened {
    fn from(why: path::OpenError) -> Self {
        match why {
            path::OpenError::ExtentMaps { limit } => Self::ExtentMaps(limit),
            path::OpenError::TooMany => Self::TooMany,
        }
    }
}

impl FileState {
    /// Opens a file, and registers it with the core as a separate device.
    pub(crate) fn open(
        engine: &Arc<EngineState>,
        backend: Backend,
        options: &OpenOptions,
    ) -> Result<Arc<Self>, NotOpened> {
        let writer = OnceLock::new();
        if options.write {
            let claim = backend.claim_for(engine.number).ok_or(NotOpened::AnotherEngine)?;
            writer.get_or_init(|| claim);
        }
        let backend = Arc::new(backend);
        // The length may have changed since the open; `ask_first_len` and `refresh` query it again.
        let len = backend.len;
        #[cfg(feature = "remember")]
        let record = engine.records.as_ref().and_then(|it| it.look_up(&backend, options));
        let mut driver = engine.drive()?;
        let opened = driver.open(&backend, len, options.delay, &options.scheduler);
        let (device, id) = opened.ok_or(NotOpened::TooMany)?;
        let window = options.starting_window.map(|bytes| Pages(bytes / PAGE_SIZE));
        let learnt = window.map(|window| LearntDevice { window, cost: None });
        let learnt = learnt.or(options.expected_device);
        #[cfg(feature = "remember")]
        let learnt = {
            let names = engine.records.as_ref().zip(record.as_deref());
            names.and_then(|(records, name)| records.opened(device, name)).or(learnt)
        };
        if let Some(learnt) = learnt {
            driver.path.restore_device(device, learnt);
        }
        drop(driver);
        let mut file = Self::new(Arc::clone(engine), backend, device, id, len);
        #[cfg(feature = "remember")]
        {
            file.record_name = record;
        }
        file.writer = writer;
        file.is_to_be_written = AtomicBool::new(options.write);
        Ok(Arc::new(file))
    }

    /// Opens a file of `len` bytes, with `map` giving the place of each page on a device.
    pub(crate) fn open_extents(
        device: &Arc<Self>,
        len: ByteCount,
        map: &Arc<ExtentMap>,
    ) -> Result<Arc<Self>, NotOpened> {
        let Self { engine, backend, device: of, .. } = &**device;
        let (engine, backend, of) = (Arc::clone(engine), Arc::clone(backend), *of);
        let id = engine.drive()?.open_extents(of, len, Arc::clone(map))?;
        let mut file = Self::new(engine, backend, of, id, len);
        file.mapping = Some(ExtentMapping { device: Arc::clone(device), map: Arc::clone(map) });
        Ok(Arc::new(file))
    }

    /// Creates the state of a file that the core has just opened, without a writer.
    fn new(
        engine: Arc<EngineState>,
        backend: Arc<Backend>,
        device: DeviceId,
        id: FileId,
        len: ByteCount,
    ) -> Self {
        Self {
            engine,
            backend,
            id,
            slot: IoPath::slot(id),
            device,
            mapping: None,
            len: AtomicU64::new(len.0),
            asking: Mutex::default(),
            writer: OnceLock::new(),
            is_to_be_written: AtomicBool::new(false),
            #[cfg(feature = "remember")]
            record_name: None,
        }
    }

    /// Makes a file that is open for reading writable, too, with the descriptors of `backend`.
    pub(crate) fn become_writable(&self, backend: Backend) -> io::Result<()> {
        // From here on the engine changes the length, and no result of an earlier query may replace
        // it.
        let asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let len = self.backend.size()?;
        let mut driver = self.engine.drive()?;
        if !self.keeps_its_length() && driver.broken().is_none() {
            driver.set_len(self.id, len);
            self.publish_len(len);
        }
        self.backend.become_writable(backend);
        drop(asking);
        Ok(())
    }

    /// Claims the file for writing. The caller holds the lock of the table of open files.
    pub(crate) fn claim(&self) -> Result<(), NotOpened> {
        let claim = self.backend.claim_for(self.engine.number).ok_or(NotOpened::AnotherEngine)?;
        self.writer.get_or_init(|| claim);
        self.is_to_be_written.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Returns true if the file is open for writing, or about to be; for an extent-mapped file, its
    /// device. The caller holds the lock of the table of open files.
    pub(crate) fn is_to_be_written(&self) -> bool {
        let device = self.mapping.as_ref().map_or(self, |mapping| &mapping.device);
        device.is_to_be_written.load(Ordering::SeqCst)
    }

    /// Queries again the length of a writable file that has no handle yet. From the first handle on
    /// only the engine tracks the length.
    pub(crate) fn ask_first_len(&self) -> Result<(), NotOpened> {
        if !self.backend.is_writable() || self.mapping.is_some() {
            return Ok(());
        }
        let len = self.backend.size();
        let len =
            len.map_err(|error| NotOpened::NoLength(error.raw_os_error().unwrap_or(libc::EIO)))?;
        let mut driver = self.engine.drive()?;
        if len != self.len() && driver.broken().is_none() {
            driver.set_len(self.id, len);
            self.publish_len(len);
        }
        Ok(())
    }

    /// Returns true if the length is tracked here and never read from the system.
    fn keeps_its_length(&self) -> bool {
        self.backend.is_writable() || self.mapping.is_some() || self.backend.source().is_some()
    }

    /// Returns true if the engine can change the length.
    pub(crate) fn can_change_len(&self) -> bool {
        self.mapping.is_none() && self.backend.can_change_len()
    }

    /// Publishes a length that the core has adopted. The caller drives.
    pub(crate) fn publish_len(&self, len: ByteCount) {
        self.len.store(len.0, Ordering::Release);
    }

    /// Prepares a change of the length, and returns the old one. Publishes a shorter length before
    /// the file is truncated, so that no read mistakes the new end for a fault. The caller drives.
    pub(crate) fn before_len_change(&self, len: ByteCount) -> ByteCount {
        let before = self.len();
        self.publish_len(len.min(before));
        before
    }

    /// Completes a change of the length, or restores the old one after a failure. Publishes a
    /// longer length only now that no page behind the old end is in memory any more. The caller
    /// drives.
    pub(crate) fn after_len_change(
        &self,
        before: ByteCount,
        len: ByteCount,
        result: Result<(), i32>,
    ) {
        self.publish_len(if result.is_ok() { len } else { before });
    }

    #[inline]
    pub(crate) fn len(&self) -> ByteCount {
        ByteCount(self.len.load(Ordering::Acquire))
    }

    /// Returns the current length, for a read that reaches the end. Usually it is unchanged, and
    /// this takes no mutex.
    pub(crate) fn refresh_if_changed(&self) -> io::Result<ByteCount> {
        if self.keeps_its_length() || self.backend.size()? == self.len() {
            return Ok(self.len());
        }
        self.refresh()
    }

    /// Queries the length from the system and adopts it.
    ///
    /// ```text
    ///   grown    |=========|==.......|            the old last page is read again: it ended early
    ///   shrunk   |=========|=========|==          pages behind the end are dropped, and so is the
    ///                ^new end                     page that contains the end
    /// ```
    pub(crate) fn refresh(&self) -> io::Result<ByteCount> {
        if self.keeps_its_length() {
            return Ok(self.len());
        }
        self.engine.check_process()?;
        // Not under the engine's mutex: an unresponsive server must block only readers of the files
        // it serves.
        let asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if self.keeps_its_length() {
            return Ok(self.len());
        }
        let len = self.backend.size()?;
        let mut driver = self.engine.drive()?;
        if len != self.len() && driver.broken().is_none() {
            driver.set_len(self.id, len);
            self.len.store(len.0, Ordering::Release);
        }
        // Release this lock before the driver stops: it wakes tasks that may query the length, too.
        drop(asking);
        Ok(len)
    }
}

impl FileState {
    /// Drops all pages that the range touches.
    pub(crate) fn invalidate(&self, range: &Range<u64>) -> Result<(), ForkedError> {
        self.engine.drive()?.invalidate(self.id, pages_of(range));
        Ok(())
    }

    /// Drops the pages that the range covers entirely.
    pub(crate) fn dont_need(&self, range: &Range<u64>) -> Result<(), ForkedError> {
        let mut driver = self.engine.drive()?;
        let len = ByteCount(range.end.saturating_sub(range.start));
        let pages = driver.path.whole_pages(self.id, ByteCount(range.start), len);
        driver.invalidate(self.id, pages);
        Ok(())
    }
}

impl ExtentMapping {
    /// Returns the data (true) and holes (false) in the range, in order; at most `max` of them.
    pub(crate) fn extents(&self, start: u64, end: u64, max: usize) -> Vec<(Range<u64>, bool)> {
        let parts = self.map.parts(ByteCount(start)..ByteCount(end)).take(max);
        parts.map(|(bytes, is_data)| (bytes.start.0..bytes.end.0, is_data)).collect()
    }
}

impl Drop for FileState {
    fn drop(&mut self) {
        let Some(mut driver) = self.engine.drive_in_drop() else { return };
        #[cfg(feature = "remember")]
        if let Some((records, name)) = self.engine.records.as_ref().zip(self.record_name.as_ref()) {
            records.closed(&driver, self.device, name);
        }
        match &self.mapping {
            Some(_) => driver.close_extents(self.id),
            None => driver.close(self.device, self.id),
        }
    }
}

/// Returns the pages that a range of bytes touches.
pub(crate) fn pages_of(range: &Range<u64>) -> Range<PageIndex> {
    if range.is_empty() {
        // An empty range touches no page, even inside one.
        return PageIndex(0)..PageIndex(0);
    }
    PageIndex(range.start / PAGE_SIZE)..PageIndex(range.end.div_ceil(PAGE_SIZE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_touches_the_pages_of_its_bytes() {
        let pages = |range| {
            let pages = pages_of(&range);
            pages.start.0..pages.end.0
        };
        assert_eq!(pages(1..8193), 0..3);
        assert_eq!(pages(5..5), 0..0, "no byte touches no page");
        assert_eq!(pages(4096..8192), 1..2);
    }
}
