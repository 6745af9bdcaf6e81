//! What an engine is made with.
//!
//! In:    settings.
//! Out:   an engine, or what the system refused.
//! Never: more than was asked for: memory fills as it is used, threads start when they are needed.

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
/// Large enough for the windows of hundreds of streams, small enough to be started beside a
/// database without asking.
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

/// How large windows may be.
#[derive(Clone, Copy, Debug)]
enum WindowSetting {
    /// Nothing was said: `adaptive` learns it, the others have what Linux has.
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

    /// Remembers what is learnt of devices in this directory, so that the next engine begins with
    /// windows of the right size instead of measuring the device for a second or more. By default
    /// nothing is remembered.
    ///
    /// Each device has a small text file, `NAME.learnt`:
    /// [`OpenOptions::device_name`](crate::OpenOptions::device_name) gives the name, else it is
    /// made of the number of the block device. The first requests check it, and
    /// eight in a row that contradict it end it. A file that cannot be read or written changes
    /// nothing else; [`FileDevice::record`](crate::FileDevice::record) says why, and
    /// [`Engine::save_learnt`] does. The directory is made when the first file is written.
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

    /// The bound for all pages, cached and in flight, and for what is needed to find them, in
    /// bytes: from 1 MiB to 1 TiB; default: [`DEFAULT_MEMORY`].
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Whether [`build`](Self::build) has the system give all of that memory at once; default: no,
    /// memory is had as it is used, and up to 8 MiB before.
    ///
    /// New memory is zeroed when it is first touched, and where a host gives it to a virtual
    /// machine that costs a multiple of that. An engine that lives long pays this once either way;
    /// with `prefault` it pays before the first read. The process then has all of the bound at
    /// once, and a system without so much memory may end it instead of refusing it.
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

    /// The largest window, in bytes: at most an eighth of the memory. A read that is larger raises
    /// it for its own stream, up to one request of the device (`Adaptive`, `Linux6`). Less than a
    /// page switches read-ahead off. By default, [`Policy::Adaptive`] learns it from each device,
    /// and the other policies have 128 KiB, as Linux has.
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

    /// Learns the largest window from each device's own reads: the one at which another doubling
    /// would bring less than 1 %. While the cost of a size is not known, a window is asked for when
    /// its reader wants it and not ahead: until eight requests have ended.
    #[must_use]
    pub fn learn_max_window(mut self) -> Self {
        self.max_window = WindowSetting::Learnt;
        self
    }

    /// The policy that decides what is read ahead; default: [`Policy::Adaptive`].
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

    /// How long a blocking read, write or flush may wait for its device before it fails; default:
    /// no time-out.
    ///
    /// The kernel has time-outs of its own for most devices, and none for some (NFS, FUSE, NBD). A
    /// miss of one page then costs a little more: it goes through the ring, because a `preadv(2)`
    /// in the calling thread cannot be cancelled. A read that timed out keeps its memory until the
    /// device answers, as the device may still write to it: up to an eighth of the bound each, so
    /// with a device that never answers the bound should have room for the reads that try.
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
    /// `foreread_record::ReadLog`, as a trace that `foreread replay` takes.
    ///
    /// It is called in the thread that reads, once for each read that the file has bytes of: when
    /// the read begins, or if it is a hit of a call that only takes hits, when that has ended. What
    /// is read ahead is not told. It must not read by this engine. Without an observer a read costs
    /// nothing more.
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

    /// How reads and writes get to the kernel.
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

    /// The dirty limit: how many bytes may be written and not on the device yet, in all files
    /// together. Writes beyond it wait. At most a quarter of the memory, which is the default.
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

    /// How long dirty pages may wait for more of their kind before they are written back, in whole
    /// milliseconds; default: 5 seconds.
    #[must_use]
    pub fn dirty_age(mut self, age: Duration) -> Self {
        self.dirty_age = Some(age);
        self
    }

    /// Makes the engine.
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
        // The core cannot fail; what it is going to keep beside the pages is tried here.
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
                // Held only as long as there is something to drive: an engine ends with its
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

/// What is kept beside the pages is less than this part of the bound.
const BESIDE_THE_PAGES: u64 = 7;
