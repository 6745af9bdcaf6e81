//! A Python callable as a source of the engine.
//!
//! In:    `fetch(start, end) -> bytes`, a size, a name and a version.
//! Out:   the bytes, in threads of the source's own, as many as 16 at a time.
//! Never: an answer while the interpreter shuts down. An exception that is lost.
//!
//! A native store joins beside this file: another `Source`, and a method of `RawEngine` to open it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use foreread::{ReadRange, Reply, SourceIdentity};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};

use crate::errors::{FetchFailures, errno_of_exception};
use crate::shutdown::attached;

/// A callable that returns the bytes of a range.
pub(crate) struct PythonFetcher {
    pub(crate) fetch: Py<PyAny>,
    pub(crate) len: u64,
    pub(crate) identity: SourceIdentity,
    /// What it has in common with others: its host, or its bucket.
    pub(crate) device: Option<String>,
    pub(crate) failures: Arc<FetchFailures>,
}

impl PythonFetcher {
    fn call(&self, py: Python<'_>, range: &Range<u64>) -> PyResult<PyBackedBytes> {
        let answer = self.fetch.bind(py).call1((range.start, range.end))?;
        if answer.is_instance_of::<PyBytes>() || answer.is_instance_of::<PyByteArray>() {
            return Ok(answer.extract::<PyBackedBytes>()?);
        }
        let view = PyMemoryView::from(&answer).map_err(|_| {
            let name = answer.get_type().name();
            let name = name.map_or_else(|_| "something else".into(), |name| name.to_string());
            PyTypeError::new_err(format!("the fetcher returned {name}, not bytes"))
        })?;
        Ok(view.call_method0("tobytes")?.extract::<PyBackedBytes>()?)
    }
}

impl ReadRange for PythonFetcher {
    fn identity(&self) -> SourceIdentity {
        self.identity.clone()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn device(&self) -> Option<String> {
        self.device.clone()
    }

    fn read_range(&self, range: Range<u64>, reply: &mut Reply) -> io::Result<()> {
        let called = attached(|py| {
            self.call(py, &range).map_err(|error| {
                let errno = errno_of_exception(py, &error);
                self.failures.keep(self.identity.name(), error);
                io::Error::from_raw_os_error(errno)
            })
        });
        let Some(bytes) = called else {
            return Err(io::Error::other("the interpreter is shutting down"));
        };
        reply.write(&bytes?)
    }
}
