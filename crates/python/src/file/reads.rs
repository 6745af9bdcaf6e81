//! Read paths of a file: choice of the stream, detaching from the interpreter, and conversion of
//! errors.

use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::PoisonError;

use foreread::ReadStream;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{PAGE, RawFile, too_large};
use crate::errors::{self, EngineForkedError};
use crate::shutdown::detached;
use crate::waiting::wait_helping;

/// Number of idle streams that a file keeps: as many threads read it without creating one.
const STREAMS_MAX: usize = 16;

/// Largest copy made while attached to the interpreter: detaching costs as much as copying 16 KiB.
pub(super) const COPY_ATTACHED_MAX: usize = 64 << 10;

impl RawFile {
    /// Checks that this is the process that opened the file.
    pub(super) fn check_process(&self) -> PyResult<()> {
        if self.process.is_here() {
            return Ok(());
        }
        let why = "this process was forked after the file was opened: open it again here, with an \
                   engine of this process";
        Err(EngineForkedError::new_err((libc::EOPNOTSUPP, why, self.failures.name.clone())))
    }

    /// Runs `act` with a stream that no other thread uses.
    pub(super) fn with_stream<R>(&self, act: impl FnOnce(&mut ReadStream) -> R) -> R {
        // Nothing panics or waits while it holds this lock.
        let lock = || self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = lock().pop();
        let mut stream = idle.unwrap_or_else(|| self.file.stream());
        let result = act(&mut stream);
        let mut streams = lock();
        if streams.len() < STREAMS_MAX {
            streams.push(stream);
        }
        result
    }

    /// Waits for a read of a file that is not a path. A timeout ends it with an error. Without one,
    /// the caller's thread calls a fetcher itself if no other thread makes progress.
    pub(super) fn wait<F>(&self, py: Python<'_>, read: Pin<&mut F>) -> PyResult<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        let (name, timeout) = (&self.failures.name, self.limits.timeout);
        wait_helping(py, name, read, timeout, |py, waited| match &self.rescue {
            Some(rescue) if timeout.is_none() => rescue.help(py, waited),
            Some(_) | None => Ok(()),
        })
    }

    /// Reads into `to` and returns the number of bytes, less than its length only at the end of the
    /// file.
    pub(super) fn fill(&self, py: Python<'_>, to: &mut [u8], offset: u64) -> PyResult<usize> {
        let read = self.with_stream(|stream| {
            if to.len() <= COPY_ATTACHED_MAX && stream.try_read_at(to, offset) {
                return Ok(Ok(to.len()));
            }
            if self.is_remote() {
                let read = pin!(stream.read_at_async(to, offset));
                return self.wait(py, read);
            }
            Ok(detached(py, move || stream.read_at(to, offset)))
        });
        match read? {
            Ok(count) => Ok(count),
            Err(error) => Err(self.failures.exception(py, error)),
        }
    }

    pub(super) fn bytes<'py>(
        &self,
        py: Python<'py>,
        size: u64,
        at: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let size = usize::try_from(size.min(self.rest(py, at)?)).map_err(|_| too_large())?;
        let mut count = 0;
        let bytes = PyBytes::new_with(py, size, |to| {
            if !to.is_empty() {
                count = self.fill(py, to, at)?;
            }
            Ok(())
        })?;
        if count == size {
            return Ok(bytes);
        }
        // The file has been truncated since.
        Ok(PyBytes::new(py, &bytes.as_bytes()[..count]))
    }

    /// Returns the number of bytes from `offset` on, refreshing the length of a file that may have
    /// grown.
    pub(super) fn rest(&self, py: Python<'_>, offset: u64) -> PyResult<u64> {
        let len = self.file.len();
        if offset < len || self.is_remote() {
            return Ok(len.saturating_sub(offset));
        }
        let len = detached(py, || self.file.refresh());
        let len = len.map_err(|error| errors::of_io(&self.failures.name, &error))?;
        Ok(len.saturating_sub(offset))
    }

    /// Clips ranges at the end of the file, refreshing the length of a file that may have grown.
    pub(super) fn clipped(
        &self,
        py: Python<'_>,
        mut ranges: Vec<Range<u64>>,
    ) -> PyResult<Vec<Range<u64>>> {
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(0);
        let mut len = self.file.len();
        if end > len {
            len += self.rest(py, len)?;
            for range in &mut ranges {
                *range = range.start.min(len)..range.end.min(len);
            }
        }
        Ok(ranges)
    }

    /// Returns true if the first byte of each page of a range is cached.
    pub(super) fn is_cached(&self, range: &Range<u64>) -> bool {
        self.with_stream(|stream| {
            let mut at = range.start;
            while at < range.end && stream.try_read_at(&mut [0], at) {
                at = (at / PAGE + 1) * PAGE;
            }
            at >= range.end
        })
    }

    /// Reads into a buffer, up to the end of the file.
    pub(super) fn fill_rest(&self, py: Python<'_>, to: &mut [u8], at: u64) -> PyResult<usize> {
        let rest = usize::try_from(self.rest(py, at)?).unwrap_or(usize::MAX);
        let count = rest.min(to.len());
        if count == 0 {
            return Ok(0);
        }
        self.fill(py, &mut to[..count], at)
    }

    pub(super) fn pinned(
        &self,
        py: Python<'_>,
        range: Range<u64>,
    ) -> PyResult<foreread::PageRange> {
        let pinned = detached(py, || self.file.pin_range(range));
        pinned.map_err(|error| self.failures.exception(py, error))
    }
}
