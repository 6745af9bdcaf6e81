//! The engine behind the Python class. No call waits while attached to the interpreter.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use foreread::{Engine, IoBackend, OpenOptions, Policy, SourceIdentity};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{self, FetchFailures};
use crate::fetcher::{FetchServer, Fetcher, FetcherSource, QueueOwner};
use crate::file::{RawFile, RemoteLimits};
#[cfg(feature = "objects")]
use crate::objects::{EngineStores, ListedObject, ObjectVersion};
use crate::shutdown::{DroppedDetached, detached};

/// A page cache, and the ring that fills it.
#[pyclass(frozen, module = "foreread._foreread")]
pub(crate) struct RawEngine {
    /// Dropping the last handle of an engine waits for pending reads of local files.
    engine: DroppedDetached<Engine>,
    limits: RemoteLimits,
    failures: Arc<FetchFailures>,
    queue: Arc<QueueOwner>,
    #[cfg(feature = "objects")]
    stores: EngineStores,
}

#[pymethods]
impl RawEngine {
    #[new]
    #[pyo3(signature = (memory, policy, max_window, timeout_s, io_backend, prefault))]
    fn new(
        py: Python<'_>,
        memory: u64,
        policy: &str,
        max_window: Option<u64>,
        timeout_s: Option<f64>,
        io_backend: &str,
        prefault: bool,
    ) -> PyResult<Self> {
        let known = Policy::ALL.into_iter().find(|known| known.name() == policy);
        let Some(policy) = known else {
            let names = Policy::ALL.map(Policy::name).join(", ");
            return Err(PyValueError::new_err(format!("no policy {policy:?}: {names}")));
        };
        let Some((_, io)) = IO_BACKENDS.iter().find(|(name, _)| *name == io_backend) else {
            let names = IO_BACKENDS.map(|(name, _)| name).join(", ");
            return Err(PyValueError::new_err(format!("no io backend {io_backend:?}: {names}")));
        };
        let mut builder = Engine::builder().memory(memory).policy(policy).io_backend(*io);
        builder = builder.prefault(prefault);
        if let Some(bytes) = max_window {
            builder = builder.max_window(bytes);
        }
        let timeout = match timeout_s.map(Duration::try_from_secs_f64).transpose() {
            Ok(timeout) if timeout != Some(Duration::ZERO) => timeout,
            Ok(_) | Err(_) => {
                return Err(PyValueError::new_err("the timeout is not a duration: give seconds"));
            }
        };
        if let Some(timeout) = timeout {
            builder = builder.timeout(timeout);
        }
        let engine = detached(py, || builder.build());
        let engine = engine.map_err(|error| errors::of_engine(&error))?;
        Ok(Self {
            engine: DroppedDetached::new(engine),
            // At most a quarter of the memory may be pinned.
            limits: RemoteLimits { timeout, pinned: memory / 4 },
            failures: Arc::default(),
            queue: Arc::default(),
            #[cfg(feature = "objects")]
            stores: EngineStores::new(timeout),
        })
    }

    /// Opens a regular file or a block device.
    #[pyo3(signature = (path, buffered = false))]
    fn open(&self, py: Python<'_>, path: PathBuf, buffered: bool) -> PyResult<RawFile> {
        let name = path.into_os_string();
        let options = OpenOptions::new().buffered(buffered);
        let opened = detached(py, || self.engine.open_with(&name, &options));
        let file = opened.map_err(|error| errors::of_open(&name, error))?;
        Ok(RawFile::of_path(file, &name, Arc::clone(&self.failures)))
    }

    /// Opens an object by its URL. Returns the file, and the object's `ETag`, version and
    /// modification time in seconds since 1970.
    #[cfg(feature = "objects")]
    fn open_url(
        &self,
        py: Python<'_>,
        url: &str,
        settings: Vec<(String, String)>,
    ) -> PyResult<(RawFile, ObjectVersion)> {
        let (object, version) = self.stores.open(py, url, settings, self.limits.timeout)?;
        let options = OpenOptions::new().starting_window(STARTING_WINDOW);
        let opened = detached(py, || self.engine.open_source_with(object, &options));
        let file = opened.map_err(|error| errors::of_open(url.as_ref(), error))?;
        Ok((RawFile::of_object(file, url, self.limits, Arc::clone(&self.failures)), version))
    }

    /// Lists the names under a prefix of a store.
    #[cfg(feature = "objects")]
    fn list_url(
        &self,
        py: Python<'_>,
        url: &str,
        settings: Vec<(String, String)>,
        is_deep: bool,
    ) -> PyResult<Vec<ListedObject>> {
        self.stores.list(py, url, settings, is_deep)
    }

    /// Opens a file backed by a callable. Files with the same name and version share their pages.
    #[pyo3(signature = (fetch, size, name, version, device = None))]
    fn open_fetcher(
        &self,
        py: Python<'_>,
        fetch: Py<PyAny>,
        size: u64,
        name: &str,
        version: &str,
        device: Option<String>,
    ) -> PyResult<RawFile> {
        let identity = SourceIdentity::new(name, version);
        let (failures, running) = (Arc::clone(&self.failures), AtomicUsize::new(0));
        let fetcher = Fetcher { fetch, len: size, identity, device, failures, running };
        let queue = Arc::clone(&self.queue);
        let rescue = queue.rescue(fetcher.identity.clone());
        let source = FetcherSource { fetcher: Arc::new(fetcher), queue };
        let options = OpenOptions::new().starting_window(STARTING_WINDOW);
        let opened = detached(py, || self.engine.open_source_with(source, &options));
        let file = opened.map_err(|error| errors::of_open(name.as_ref(), error))?;
        Ok(RawFile::of_fetcher(file, name, self.limits, rescue, Arc::clone(&self.failures)))
    }

    /// Returns the dispatcher of fetcher requests to threads.
    fn server(&self) -> FetchServer {
        self.queue.server()
    }

    /// Returns the counters of the engine.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters =
            detached(py, || self.engine.counters()).map_err(|error| errors::of_engine(&error))?;
        let (path, cache) = (&counters.path, &counters.cache);
        let all = PyDict::new(py);
        let rows = [
            ("hits", counters.hits),
            ("inline_reads", counters.inline_reads),
            ("misses", path.reads),
            ("pages_wanted", path.pages_wanted),
            ("pages_missed", path.pages_missed),
            ("pages_ahead", path.pages_ahead),
            ("pages_hinted", path.pages_hinted),
            ("device_reads", path.device_reads),
            ("device_pages", path.device_pages),
            ("retries", path.retries),
            ("pages_failed", path.pages_failed),
            ("evictions", cache.evictions),
            ("evicted_before_use", cache.evicted_before_use),
            ("refaults", cache.refaults),
        ];
        for (name, number) in rows {
            all.set_item(name, number)?;
        }
        #[cfg(feature = "objects")]
        for (name, number) in self.stores.counts() {
            all.set_item(name, number)?;
        }
        Ok(all)
    }

    /// Returns a description of the I/O backend in use.
    fn io_backend(&self) -> String {
        self.engine.io_backend().to_string()
    }

    /// Returns the current values of the settings that `set` accepts.
    fn settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let settings =
            detached(py, || self.engine.settings()).map_err(|error| errors::of_engine(&error))?;
        let all = PyDict::new(py);
        for (name, value) in settings {
            all.set_item(name, value)?;
        }
        Ok(all)
    }

    /// Changes a setting at run time.
    fn set(&self, py: Python<'_>, name: &str, value: &str) -> PyResult<()> {
        let set = detached(py, || self.engine.set_by_name(name, value));
        set.map_err(|error| errors::of_setting(&error))
    }
}

/// Initial window for fetchers and objects, in bytes. A store serves many requests in parallel,
/// which can be learnt only with several in flight: this is 8 of the largest requests, half of the
/// threads of a fetcher.
const STARTING_WINDOW: u64 = 8 << 20;

/// I/O backends by name.
const IO_BACKENDS: [(&str, IoBackend); 3] =
    [("auto", IoBackend::Probe), ("io_uring", IoBackend::IoUring), ("threads", IoBackend::Threads)];
