//! A file of the engine, however often it is open: what all its handles share.
//!
//! In:    an open backend, or the extents of a file on an open device.
//! Out:   its id in the core, its length, cached; its pages forgotten when they are out of date.
//! Never: a length that two threads ask for at once, of which the earlier answer wins.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use foreread_core::path::{self, DeviceId, ExtentMap, FileId, IoPath};
use foreread_core::table::FileSlot;
use foreread_core::units::{ByteCount, PAGE_SIZE, PageIndex};

use crate::OpenOptions;
use crate::backend::{Backend, EXTENTS_MAX};
use crate::engine_state::EngineState;
use crate::error::{ForkedError, OpenError};

/// A file of the engine, however often it is open.
#[derive(Debug)]
pub(crate) struct FileState {
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
}

/// Where an extent-mapped file lies.
#[derive(Debug)]
pub(crate) struct ExtentMapping {
    /// Stays open as long as the file does.
    _device: Arc<FileState>,
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
    /// All extent maps together take as much memory as they may, which is so much.
    ExtentMaps(ByteCount),
}

impl NotOpened {
    /// The error for the caller that wanted to open `path`.
    pub(crate) fn of(self, path: &Path) -> OpenError {
        let path = path.to_path_buf();
        match self {
            Self::Conflict => OpenError::Overlap { path },
            Self::TooMany => OpenError::TooMany { path },
            Self::Forked => OpenError::Forked { path },
            Self::ExtentMaps(limit) => OpenError::ManyExtents { path, limit },
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
        let backend = Arc::new(backend);
        // As long as it was a moment ago; `refresh` asks again.
        let len = backend.len;
        let mut driver = engine.drive()?;
        let opened = driver.open(&backend, len, options.delay, &options.scheduler);
        drop(driver);
        let (device, id) = opened.ok_or(NotOpened::TooMany)?;
        let slot = IoPath::slot(id);
        let (engine, len) = (Arc::clone(engine), AtomicU64::new(len.0));
        let (mapping, asking) = (None, Mutex::default());
        Ok(Arc::new(Self { engine, backend, id, slot, device, mapping, len, asking }))
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
        let (slot, len, asking) = (IoPath::slot(id), AtomicU64::new(len.0), Mutex::default());
        let mapping = Some(ExtentMapping { _device: Arc::clone(device), map: Arc::clone(map) });
        Ok(Arc::new(Self { engine, backend, id, slot, device: of, mapping, len, asking }))
    }

    /// Whether only its owner knows how long it is.
    fn keeps_its_length(&self) -> bool {
        self.backend.is_writable || self.mapping.is_some() || self.backend.source().is_some()
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
    /// Where data are (true) and where holes from one byte to the other, in order.
    pub(crate) fn extents(&self, start: u64, end: u64) -> Vec<(Range<u64>, bool)> {
        let parts = self.map.parts(ByteCount(start)..ByteCount(end)).take(EXTENTS_MAX);
        parts.map(|(bytes, is_data)| (bytes.start.0..bytes.end.0, is_data)).collect()
    }
}

impl Drop for FileState {
    fn drop(&mut self) {
        let Some(mut driver) = self.engine.drive_in_drop() else { return };
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
