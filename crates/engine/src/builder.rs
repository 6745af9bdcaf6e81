//! Builder of an engine. Memory is allocated lazily and threads start on demand.

use std::ops::ControlFlow;
#[cfg(feature = "remember")]
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use foreread_core::cache::PageCache;
use foreread_core::geometry;
use foreread_core::path::{Config, IoPath};
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::units::{ByteCount, PAGE_SIZE, Pages};

use crate::background::BackgroundWaker;
use crate::driver::Driver;
use crate::engine::Engine;
use crate::engine_state::{EngineParts, EngineState};
use crate::error::EngineError;
use crate::open_files::OpenFiles;
use crate::pool::Pool;
use crate::read_observer::{ReadEvent, ReadObserver};
#[cfg(feature = "remember")]
use crate::remember::DeviceRecords;
use crate::ring::{IoBackend, Ring};
use crate::source::FetchTable;
use crate::waiters::Waiters;

/// The default memory bound, in bytes.
///
/// Large enough for the windows of hundreds of streams, small enough to run on a database host
/// without further sizing.
pub const DEFAULT_MEMORY: u64 = 256 << 20;

/// Settings of an [`Engine`].
///
/// ```
/// # fn main() -> Result<(), foreread::EngineError> {
/// use std::time::Duration;
///
/// let engine = foreread::Engine::builder()
///     .memory(64 << 20)
///     .policy(foreread::Policy::Adaptive)
///     .timeout(Duration::from_secs(30))
///     .build()?;
/// assert!(engine.clone().max_window().is_ok(), "a clone is another handle to the same engine");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct EngineBuilder {
    memory: u64,
    prefault: bool,
    max_window: WindowSetting,
    policy: Policy,
    pub(crate) trace: usize,
    timeout: Option<Duration>,
    io: IoBackend,
    pub(crate) rules: Rules,
    pub(crate) record: usize,
    observer: Option<ReadObserver>,
    dirty_limit: Option<u64>,
    dirty_age: Option<Duration>,
    #[cfg(feature = "remember")]
    remember: Option<PathBuf>,
}

/// Upper bound of read-ahead windows.
#[derive(Clone, Copy, Debug)]
enum WindowSetting {
    /// Default: `adaptive` learns the bound, the other policies use that of Linux.
    ByPolicy,
    Learnt,
    Bytes(u64),
}

impl Engine {
    /// Returns a builder with the default settings.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = foreread::Engine::builder().memory(64 << 20).build()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn builder() -> EngineBuilder {
        EngineBuilder::new()
    }
}

impl EngineBuilder {
    fn new() -> Self {
        Self {
            memory: DEFAULT_MEMORY,
            prefault: false,
            max_window: WindowSetting::ByPolicy,
            policy: Policy::default(),
            trace: 0,
            timeout: None,
            io: IoBackend::default(),
            rules: Rules::default(),
            record: 0,
            observer: None,
            dirty_limit: None,
            dirty_age: None,
            #[cfg(feature = "remember")]
            remember: None,
        }
    }

    /// Saves learnt device models in this directory, so that the next engine starts with windows of
    /// the right size instead of measuring the device for a second or more. By default nothing is
    /// saved.
    ///
    /// Each device has a small text file, `NAME.learnt`. The name is set by
    /// [`OpenOptions::device_name`](crate::OpenOptions::device_name) and defaults to one made from
    /// the number of the block device. The first requests verify the saved model; eight
    /// contradicting ones in a row discard it. Failures to read or write the file affect nothing
    /// else; [`FileDevice::record`](crate::FileDevice::record) and [`Engine::save_learnt`] report
    /// them. The directory is created with the first file.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = foreread::Engine::builder().remember("/var/lib/db/devices").build()?;
    /// let options = foreread::OpenOptions::new().device_name("volume-17");
    /// let table = engine.open_with("/mnt/volume-17/table", &options)?;
    /// println!("{}", table.device().record());
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "remember")]
    #[must_use]
    pub fn remember(mut self, directory: impl Into<PathBuf>) -> Self {
        self.remember = Some(directory.into());
        self
    }

    /// Sets the memory bound in bytes, for all pages, cached and in flight, and their index: from
    /// 1 MiB to 1 TiB; default: [`DEFAULT_MEMORY`].
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets whether [`build`](Self::build) faults in the whole memory bound; default: no, memory is
    /// allocated lazily, up to 8 MiB ahead.
    ///
    /// The kernel zeroes new memory on first touch; in a virtual machine whose host has to back it
    /// first, a touch costs a multiple of that. A long-lived engine pays this once either way; with
    /// `prefault` it pays before the first read. The whole bound is then resident from the start,
    /// and a system short of memory may kill the process instead of refusing the allocation.
    ///
    /// ```
    /// # fn main() -> Result<(), foreread::EngineError> {
    /// let engine = foreread::Engine::builder().memory(16 << 20).prefault(true).build()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn prefault(mut self, prefault: bool) -> Self {
        self.prefault = prefault;
        self
    }

    /// Sets the largest window, in bytes: at most an eighth of the memory. A larger read raises it
    /// for that stream, up to one request of the device (`Adaptive`, `Linux6`). A value below one
    /// page disables read-ahead. By default, [`Policy::Adaptive`] learns it from each device, and
    /// the other policies use 128 KiB, like Linux.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = foreread::Engine::builder().max_window(1 << 20).build()?;
    /// assert_eq!(engine.max_window()?, 1 << 20);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn max_window(mut self, bytes: u64) -> Self {
        self.max_window = WindowSetting::Bytes(bytes);
        self
    }

    /// Learns the largest window from the reads of each device: the one at which another doubling
    /// would gain less than 1 %. While the cost of a size is unknown, until eight requests have
    /// completed, a window is read when its reader needs it and not ahead.
    #[must_use]
    pub fn learn_max_window(mut self) -> Self {
        self.max_window = WindowSetting::Learnt;
        self
    }

    /// Sets the read-ahead policy; default: [`Policy::Adaptive`].
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use foreread::{Engine, Policy};
    ///
    /// let engine = Engine::builder().policy(Policy::Linux6).build()?; // as the kernel reads ahead
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the time after which a blocking read, write or flush that waits for its device fails;
    /// default: no time-out.
    ///
    /// The kernel enforces a time-out for most devices, and none for some (NFS, FUSE, NBD). With a
    /// time-out, a miss of one page costs a little more: it goes through the ring, because a
    /// `preadv(2)` in the calling thread cannot be cancelled. A read that timed out keeps its
    /// memory until the device answers, as the device may still write to it: up to an eighth of the
    /// bound each. Size the bound for the concurrent reads of a device that may never answer.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let engine = foreread::Engine::builder().timeout(Duration::from_secs(30)).build()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Calls `observer` for each read of this engine's files: to record them, for example with
    /// `foreread_record::ReadLog`, as a trace for `foreread-lab replay`.
    ///
    /// The reading thread calls it once per read that starts before the end of the file: when the
    /// read begins, or, for a hit of a call that only serves hits, when that call has finished.
    /// Read-ahead is not reported. The observer must not read through this engine. Without an
    /// observer, reads have no extra cost.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = foreread::Engine::builder()
    ///     .observe_reads(|read| println!("{}: {}", read.path.display(), read.offset))
    ///     .build()?;
    /// # let _ = engine;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn observe_reads(
        mut self,
        observer: impl Fn(&ReadEvent<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(ReadObserver(Arc::new(observer)));
        self
    }

    /// Sets the I/O backend: io_uring or threads.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use foreread::{Engine, IoBackend};
    ///
    /// let engine = Engine::builder().io_backend(IoBackend::Threads).build()?; // no io_uring
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn io_backend(mut self, io: IoBackend) -> Self {
        self.io = io;
        self
    }

    /// Sets the dirty limit: the number of bytes written but not yet on the device, over all files.
    /// Writes beyond it block. At most a quarter of the memory, which is the default.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = foreread::Engine::builder().memory(256 << 20).dirty_limit(16 << 20).build()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn dirty_limit(mut self, bytes: u64) -> Self {
        self.dirty_limit = Some(bytes);
        self
    }

    /// Sets the age at which dirty pages are written back, in whole milliseconds; younger ones may
    /// wait for neighbours to merge with. Default: 5 seconds.
    #[must_use]
    pub fn dirty_age(mut self, age: Duration) -> Self {
        self.dirty_age = Some(age);
        self
    }

    /// Creates the engine.
    ///
    /// # Errors
    ///
    /// If the bound is too small, or the system refuses memory or an io_uring.
    #[expect(clippy::missing_panics_doc, reason = "both settings take every number")]
    pub fn build(self) -> Result<Engine, EngineError> {
        let memory = ByteCount(self.memory);
        if memory < PageCache::MIN_BOUND || memory > PageCache::MAX_BOUND {
            return Err(EngineError::Memory { bound: memory });
        }
        // The core cannot report failed allocations: test here that its metadata fits.
        let beside = usize::try_from(self.memory / BESIDE_THE_PAGES).unwrap_or(usize::MAX);
        if Vec::<u8>::new().try_reserve_exact(beside).is_err() {
            let source = std::io::ErrorKind::OutOfMemory.into();
            return Err(EngineError::Arena { len: memory, source });
        }
        let (policy, rules) = (self.policy, self.rules);
        let max_window = match self.max_window {
            WindowSetting::Bytes(bytes) => Pages(bytes / PAGE_SIZE),
            WindowSetting::ByPolicy if policy != Policy::Adaptive => {
                Pages(geometry::DEFAULT_WINDOW.0 / PAGE_SIZE)
            }
            WindowSetting::ByPolicy | WindowSetting::Learnt => Config::AUTO_WINDOW,
        };
        let mut path = IoPath::new(Config { memory, policy, max_window, rules });
        path.set_trace(self.trace);
        path.record(self.record);
        let limit = self.dirty_limit.map(|bytes| ("dirty_limit", bytes.to_string()));
        let age = self.dirty_age.map(|age| ("dirty_age", age.as_millis().to_string()));
        for (name, value) in [limit, age].into_iter().flatten() {
            let max = u64::MAX.to_string();
            let value = if value.len() > max.len() { max } else { value };
            path.set(name, &value).expect("both settings take every number of 64 bits");
        }
        let mut pool = Pool::new(path.frame_count())?;
        if self.prefault {
            pool.prefault().map_err(|source| EngineError::Arena { len: memory, source })?;
        }
        let pool = Arc::new(pool);
        let table = path.table();
        let ring = Ring::with(Arc::clone(&pool), self.io)?;
        let (timeout, observer) = (self.timeout, self.observer);
        let state = Arc::new_cyclic(|engine: &Weak<EngineState>| {
            let engine = Weak::clone(engine);
            let sources = Weak::clone(&engine);
            let post = Arc::new(move |event| {
                if let Some(engine) = sources.upgrade() {
                    engine.post([event]);
                }
            });
            let drive = move || match engine.upgrade() {
                // The engine is held only while there is work to drive, so that it ends with its
                // handles.
                Some(engine) => ControlFlow::Continue(engine.lead_in_the_background()),
                None => ControlFlow::Break(()),
            };
            let background = Arc::new(BackgroundWaker::new(Box::new(drive)));
            let waiters = Waiters::new(Arc::clone(&background));
            let fetches = FetchTable::new(post, timeout);
            let driver = Driver::new(path, ring, waiters, fetches);
            EngineState::new(EngineParts {
                table,
                pool,
                driver,
                background,
                timeout,
                observer,
                #[cfg(feature = "remember")]
                records: self.remember.map(DeviceRecords::new),
            })
        });
        Ok(Engine { state, files: Arc::new(OpenFiles::default()) })
    }
}

/// The metadata takes less than one part in this many of the bound.
const BESIDE_THE_PAGES: u64 = 7;
