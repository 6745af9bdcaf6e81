//! An open file behind the Python class.
//!
//! In:    offsets, sizes, buffers; from any thread.
//! Out:   bytes, pinned pages, hints.
//! Never: two threads in one stream, or a wait while attached to the interpreter.

mod position;
mod reads;

use std::ffi::OsStr;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use foreread::{Advice, File, ReadStream};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use self::position::Position;
use self::reads::COPY_ATTACHED_MAX;
use crate::asynchronous::{LoopNotifier, PendingRead};
use crate::buffer::WritableBuffer;
use crate::errors::{self, FetchFailures, FileOrigin, ReadFailures};
use crate::fetcher::FetchRescue;
use crate::fork::ProcessStamp;
use crate::pinned::PinnedRange;
use crate::shutdown::detached;

/// A file of an engine, with a position.
#[pyclass(frozen, module = "foreread._foreread")]
pub(crate) struct RawFile {
    file: File,
    limits: RemoteLimits,
    failures: ReadFailures,
    position: Position,
    /// Idle streams: each read takes one, or creates one.
    streams: Mutex<Vec<ReadStream>>,
    /// For a fetcher: the handle with which a reader calls it.
    rescue: Option<FetchRescue>,
    process: ProcessStamp,
}

/// Limits for files that are not paths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RemoteLimits {
    /// Timeout of a call.
    pub(crate) timeout: Option<Duration>,
    /// Limit of the bytes pinned by the engine.
    pub(crate) pinned: u64,
}

impl RawFile {
    pub(crate) fn of_path(file: File, name: &OsStr, failures: Arc<FetchFailures>) -> Self {
        Self::new(file, name, FileOrigin::Path, RemoteLimits::default(), failures)
    }

    pub(crate) fn of_fetcher(
        file: File,
        name: &str,
        limits: RemoteLimits,
        rescue: FetchRescue,
        failures: Arc<FetchFailures>,
    ) -> Self {
        let raw = Self::new(file, name.as_ref(), FileOrigin::Fetcher, limits, failures);
        Self { rescue: Some(rescue), ..raw }
    }

    #[cfg(feature = "objects")]
    pub(crate) fn of_object(
        file: File,
        url: &str,
        limits: RemoteLimits,
        failures: Arc<FetchFailures>,
    ) -> Self {
        Self::new(file, url.as_ref(), FileOrigin::Object, limits, failures)
    }

    fn new(
        file: File,
        name: &OsStr,
        origin: FileOrigin,
        limits: RemoteLimits,
        of_fetchers: Arc<FetchFailures>,
    ) -> Self {
        let failures = ReadFailures { name: name.to_owned(), origin, of_fetchers };
        Self {
            file,
            limits,
            failures,
            position: Position::default(),
            streams: Mutex::default(),
            rescue: None,
            process: ProcessStamp::now(),
        }
    }

    /// Returns true if the file is not a path: Ctrl-C then interrupts waits, and the length is
    /// fixed.
    fn is_remote(&self) -> bool {
        self.failures.origin != FileOrigin::Path
    }
}

#[pymethods]
impl RawFile {
    /// Reads at the position: up to the end if `size` is negative or None.
    #[pyo3(signature = (size = None))]
    fn read<'py>(&self, py: Python<'py>, size: Option<i64>) -> PyResult<Bound<'py, PyBytes>> {
        self.check_process()?;
        let mut position = self.position.take(py)?;
        let size = size.and_then(|size| u64::try_from(size).ok()).unwrap_or(u64::MAX);
        let bytes = self.bytes(py, size, *position)?;
        *position += bytes.len()? as u64;
        Ok(bytes)
    }

    /// Reads into a buffer at the position.
    fn readinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.check_process()?;
        let mut buffer = WritableBuffer::of(buffer)?;
        let mut position = self.position.take(py)?;
        let count = self.fill_rest(py, buffer.bytes(), *position)?;
        *position += count as u64;
        Ok(count)
    }

    /// Reads at an offset without moving the position.
    fn pread<'py>(&self, py: Python<'py>, size: i64, at: i64) -> PyResult<Bound<'py, PyBytes>> {
        self.check_process()?;
        self.bytes(py, not_negative("size", size)?, not_negative("offset", at)?)
    }

    /// Reads into a buffer at an offset without moving the position.
    fn preadinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, at: i64) -> PyResult<usize> {
        self.check_process()?;
        let at = not_negative("offset", at)?;
        self.fill_rest(py, WritableBuffer::of(buffer)?.bytes(), at)
    }

    /// Starts a read at an offset. Returns the bytes on a cache hit, else a pending read that
    /// reports to `notifier`.
    fn pread_start<'py>(
        &self,
        py: Python<'py>,
        size: i64,
        at: i64,
        notifier: &LoopNotifier,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check_process()?;
        let (size, at) = (not_negative("size", size)?, not_negative("offset", at)?);
        let size = usize::try_from(size.min(self.rest(py, at)?)).map_err(|_| too_large())?;
        if size <= COPY_ATTACHED_MAX {
            let mut is_hit = size == 0;
            let bytes = PyBytes::new_with(py, size, |to| {
                is_hit = is_hit || self.with_stream(|stream| stream.try_read_at(to, at));
                Ok(())
            })?;
            if is_hit {
                return Ok(bytes.into_any());
            }
        }
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(size).map_err(|_| too_large())?;
        buffer.resize(size, 0);
        let read = self.file.read_into(buffer, at);
        let read = PendingRead::new(read, notifier, self.failures.clone());
        Ok(Bound::new(py, read)?.into_any())
    }

    /// Reads many ranges at once: merged, split and ordered by the device's costs.
    fn read_ranges<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<(i64, i64)>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.check_process()?;
        let ranges = self.clipped(py, checked_ranges(ranges)?)?;
        let read = if self.is_remote() {
            let read = pin!(self.file.read_ranges_async(&ranges));
            self.wait(py, read)?
        } else {
            detached(py, || self.file.read_ranges(&ranges))
        };
        let all = read.map_err(|error| self.failures.exception(py, error))?;
        PyList::new(py, all.iter().map(|bytes| PyBytes::new(py, bytes)))
    }

    /// Announces ranges that will be read soon. Returns the number of pages requested.
    fn will_need(&self, py: Python<'_>, ranges: Vec<(i64, i64)>) -> PyResult<u64> {
        self.check_process()?;
        let ranges = self.clipped(py, checked_ranges(ranges)?)?;
        let asked = detached(py, || self.file.will_need(ranges));
        asked.map_err(|error| self.failures.exception(py, error))
    }

    /// Sets the expected access pattern of the file.
    fn advise(&self, advice: &str) -> PyResult<()> {
        self.check_process()?;
        let known = ADVICE.iter().find(|(name, _)| *name == advice);
        let Some((_, advice)) = known else {
            let names = ADVICE.map(|(name, _)| name).join(", ");
            return Err(PyValueError::new_err(format!("no advice {advice:?}: {names}")));
        };
        self.file.advise(*advice);
        // Streams adopt the advice when they are created.
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = std::mem::take(&mut *streams);
        drop(streams);
        drop(idle);
        Ok(())
    }

    /// Pins the pages of a range; without a size, to the end of the page at `at`.
    #[pyo3(signature = (at, size = None))]
    fn pin(&self, py: Python<'_>, at: i64, size: Option<i64>) -> PyResult<PinnedRange> {
        self.check_process()?;
        let at = not_negative("offset", at)?;
        let size = match size {
            Some(size) => not_negative("size", size)?,
            None => PAGE - at % PAGE,
        };
        let range = at..at + size.min(self.rest(py, at)?);
        if range.is_empty() {
            return Ok(PinnedRange::new(self.pinned(py, 0..0)?));
        }
        let len = range.end - range.start;
        if self.is_remote() && len <= self.limits.pinned && !self.is_cached(&range) {
            // A wait for a pin cannot be interrupted, so missing pages are read first, unless the
            // range exceeds the pin limit.
            self.bytes(py, len, at)?;
        }
        Ok(PinnedRange::new(self.pinned(py, range)?))
    }

    /// Drops a range from the cache because another program has written it.
    fn invalidate(&self, py: Python<'_>, start: i64, end: i64) -> PyResult<()> {
        self.check_process()?;
        let range = not_negative("start", start)?..not_negative("end", end)?;
        detached(py, || self.file.invalidate(range)).map_err(|error| errors::of_engine(&error))
    }

    /// Updates the length of the file from the system, and returns it.
    fn refresh(&self, py: Python<'_>) -> PyResult<u64> {
        self.check_process()?;
        let len = detached(py, || self.file.refresh());
        len.map_err(|error| errors::of_io(&self.failures.name, &error))
    }

    /// Length in bytes.
    #[getter]
    fn len(&self) -> u64 {
        self.file.len()
    }

    /// Reason that reads use the kernel's page cache; None if they bypass it.
    #[getter]
    fn direct_io_unavailable(&self) -> Option<&'static str> {
        self.file.direct_io_unavailable()
    }

    fn tell(&self, py: Python<'_>) -> PyResult<u64> {
        self.check_process()?;
        Ok(*self.position.take(py)?)
    }

    /// Moves the position, like `io.RawIOBase.seek`.
    #[pyo3(signature = (offset, whence = 0))]
    fn seek(&self, py: Python<'_>, offset: i64, whence: i64) -> PyResult<u64> {
        self.check_process()?;
        let mut position = self.position.take(py)?;
        let from = match whence {
            0 => 0,
            1 => *position,
            2 if self.is_remote() => self.file.len(),
            2 => self.refresh(py)?,
            _ => {
                let why = format!("invalid whence ({whence}, should be 0, 1 or 2)");
                return Err(PyValueError::new_err(why));
            }
        };
        let to = from.checked_add_signed(offset).filter(|to| i64::try_from(*to).is_ok());
        let Some(to) = to else {
            let why = format!("seek to {offset} from {from}: before the start, or too far");
            return Err(PyValueError::new_err(why));
        };
        *position = to;
        Ok(to)
    }
}

/// Page size of the engine.
const PAGE: u64 = 4096;

/// Access patterns by name.
const ADVICE: [(&str, Advice); 4] = [
    ("normal", Advice::Normal),
    ("sequential", Advice::Sequential),
    ("random", Advice::Random),
    ("noreuse", Advice::NoReuse),
];

fn not_negative(what: &str, value: i64) -> PyResult<u64> {
    u64::try_from(value)
        .map_err(|_| PyValueError::new_err(format!("{what} {value} is negative: give 0 or more")))
}

fn checked_ranges(ranges: Vec<(i64, i64)>) -> PyResult<Vec<Range<u64>>> {
    let checked = ranges.into_iter().map(|(start, end)| {
        let range = not_negative("start", start)?..not_negative("end", end)?;
        if range.start > range.end {
            let why = format!("the range ({start}, {end}) ends before it starts");
            return Err(PyValueError::new_err(why));
        }
        Ok(range)
    });
    checked.collect()
}

fn too_large() -> PyErr {
    PyOverflowError::new_err("no memory for this number of bytes: read less at a time")
}
