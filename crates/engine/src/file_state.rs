//! A file of the engine, however often it is open: what all its handles share.
//!
//! In:    an open backend, or the extents of a file on an open device.
//! Out:   its id in the core, its length, cached; its pages forgotten when they are out of date.
//! Never: a length that two threads ask for at once, of which the earlier answer wins.

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

/// A file of the engine, however often it is open.
#[derive(Debug)]
pub(crate) struct FileState {
    /// Keeps other engines of this process from writing it. Ends before the descriptor is closed:
    /// after that the system may give the number of a removed file to a new one.
    writer: OnceLock<Arc<WriterClaim>>,
    pub(crate) engine: Arc<EngineState>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) id: FileId,
    pub(crate) slot: FileSlot,
    pub(crate) device: DeviceId,
    /// If it is extent-mapped: on which device, and where.
    pub(crate) mapping: Option<ExtentMapping>,
    /// Its length, cached: [`Self::refresh`] asks the system. Changed by the driver only.
    len: AtomicU64,
    /// Held while the system is asked for the length: of two answers the later one must win.
    asking: Mutex<()>,
    /// It is open for writing, or about to be. Changed while the table of open files is locked.
    is_to_be_written: AtomicBool,
    /// Under which name its device is remembered, if it is.
    #[cfg(feature = "remember")]
    pub(crate) record_name: Option<String>,
}

/// Where an extent-mapped file lies.
#[derive(Debug)]
pub(crate) struct ExtentMapping {
    /// Stays open as long as the file does.
    device: Arc<FileState>,
    map: Arc<ExtentMap>,
}

/// Why there is no file of the engine's although there is one of the system's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotOpened {
    /// It is open in this engine in another way, and one of the two is for writing.
    Conflict,
    /// Too many files are open.
    TooMany,
    /// This process is a fork of the engine's.
    Forked,
    /// Another engine of this process has it open for writing.
    AnotherEngine,
    /// All extent maps together take as much memory as they may, which is so much.
    ExtentMaps(ByteCount),
    /// The system does not say how long it is, with this error number.
    NoLength(i32),
}

impl NotOpened {
    /// The error for the caller that wanted to open `path`.
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

/// The core says no.
impl From<path::OpenError> for NotOpened {
    fn from(why: path::OpenError) -> Self {
        match why {
            path::OpenError::ExtentMaps { limit } => Self::ExtentMaps(limit),
            path::OpenError::TooMany => Self::TooMany,
        }
    }
}

impl FileState {
    /// Opens a file as a device of its own.
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
        // As long as it was a moment ago; `ask_first_len` and `refresh` ask again.
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
        let mut file = Self::new(Arc::clone(engine), backend, (device, id), len);
        #[cfg(feature = "remember")]
        {
            file.record_name = record;
        }
        file.writer = writer;
        file.is_to_be_written = AtomicBool::new(options.write);
        Ok(Arc::new(file))
    }

    /// Opens a file of so many bytes whose pages lie where `map` says on a device.
    pub(crate) fn open_extents(
        device: &Arc<Self>,
        len: ByteCount,
        map: &Arc<ExtentMap>,
    ) -> Result<Arc<Self>, NotOpened> {
        let Self { engine, backend, device: of, .. } = &**device;
        let (engine, backend, of) = (Arc::clone(engine), Arc::clone(backend), *of);
        let id = engine.drive()?.open_extents(of, len, Arc::clone(map))?;
        let mut file = Self::new(engine, backend, (of, id), len);
        file.mapping = Some(ExtentMapping { device: Arc::clone(device), map: Arc::clone(map) });
        Ok(Arc::new(file))
    }

    /// A file that the core has opened, for reading, as a device of its own.
    fn new(
        engine: Arc<EngineState>,
        backend: Arc<Backend>,
        (device, id): (DeviceId, FileId),
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

    /// It is open for reading, and is opened for writing, too, through what `backend` has.
    pub(crate) fn become_writable(&self, backend: Backend) -> io::Result<()> {
        // After it no answer about the length is taken over: the engine changes it.
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

    /// Claims it for writing. The caller has locked the table of open files.
    pub(crate) fn claim(&self) -> Result<(), NotOpened> {
        let claim = self.backend.claim_for(self.engine.number).ok_or(NotOpened::AnotherEngine)?;
        self.writer.get_or_init(|| claim);
        self.is_to_be_written.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Whether it is open for writing, or about to be; of an extent-mapped file, its device. The
    /// caller has locked the table of open files.
    pub(crate) fn is_to_be_written(&self) -> bool {
        let device = self.mapping.as_ref().map_or(self, |mapping| &mapping.device);
        device.is_to_be_written.load(Ordering::SeqCst)
    }

    /// Asks once more how long a file is that no handle has yet and that is going to be written:
    /// from its first handle on the engine alone knows that.
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

    /// Whether only its owner knows how long it is.
    fn keeps_its_length(&self) -> bool {
        self.backend.is_writable() || self.mapping.is_some() || self.backend.source().is_some()
    }

    /// Whether the engine can change its length.
    pub(crate) fn can_change_len(&self) -> bool {
        self.mapping.is_none() && self.backend.can_change_len()
    }

    /// The file has this length now, by a change that the core has made. The caller drives.
    pub(crate) fn publish_len(&self, len: ByteCount) {
        self.len.store(len.0, Ordering::Release);
    }

    /// The file is about to be given this length. Readers see a shorter one before the file has it,
    /// so that no read takes an end that it did not expect for a fault. Returns the length before.
    /// The caller drives.
    pub(crate) fn before_len_change(&self, len: ByteCount) -> ByteCount {
        let before = self.len();
        self.publish_len(len.min(before));
        before
    }

    /// The file has been given this length, or kept the one before. Readers see a longer one now
    /// that nothing behind the old end is in memory any more. The caller drives.
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

    /// The same, for a read that reaches the end: without the mutex, as nothing mostly changed.
    pub(crate) fn refresh_if_changed(&self) -> io::Result<ByteCount> {
        if self.keeps_its_length() || self.backend.size()? == self.len() {
            return Ok(self.len());
        }
        self.refresh()
    }

    /// Asks the system how long the file is, and takes that over.
    ///
    /// ```text
    ///   grown    |=========|==.......|            the old last page is read again: it ended early
    ///   shrunk   |=========|=========|==          what lies behind the end is forgotten, and so
    ///                ^new end                     is the page that the end is in
    /// ```
    pub(crate) fn refresh(&self) -> io::Result<ByteCount> {
        if self.keeps_its_length() {
            return Ok(self.len());
        }
        self.engine.check_process()?;
        // Not under the engine's mutex: a server that does not answer must block only the readers
        // of its files.
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
        // Before the driver stops, and wakes tasks that may ask, too.
        drop(asking);
        Ok(len)
    }
}

impl FileState {
    /// Forgets the pages that these bytes touch.
    pub(crate) fn invalidate(&self, range: &Range<u64>) -> Result<(), ForkedError> {
        self.engine.drive()?.invalidate(self.id, pages_of(range));
        Ok(())
    }

    /// Forgets the pages that these bytes cover.
    pub(crate) fn dont_need(&self, range: &Range<u64>) -> Result<(), ForkedError> {
        let mut driver = self.engine.drive()?;
        let len = ByteCount(range.end.saturating_sub(range.start));
        let pages = driver.path.whole_pages(self.id, ByteCount(range.start), len);
        driver.invalidate(self.id, pages);
        Ok(())
    }
}

impl ExtentMapping {
    /// Where data are (true) and where holes from one byte to the other, in order; the first `max`.
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

/// The pages that a range of bytes touches.
pub(crate) fn pages_of(range: &Range<u64>) -> Range<PageIndex> {
    if range.is_empty() {
        // Inside of a page, too, there is nothing.
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
