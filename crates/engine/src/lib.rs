//! The I/O path that programs lose when they leave the page cache: read-ahead, a cache that knows
//! its readers, write-back, and I/O that is queued and merged, over `O_DIRECT` and io_uring.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = foreread::Engine::builder().memory(512 << 20).build()?;
//! let file = engine.open("/var/lib/db/table")?; // a file or a block device
//!
//! let mut page = vec![0; 8192];
//! let n = file.read_at(&mut page, 0)?; // each thread that reads is a stream of its own
//!
//! let scan = file.stream(); // or have one for each scan
//! scan.advise(foreread::Advice::Sequential);
//! scan.read_at(&mut page, 1 << 20)?; // offsets and lengths are in bytes, and need no alignment
//!
//! file.will_need([0..65536])?; // asked for at once
//! let header = scan.pin(0)?; // the page itself, without a copy
//! assert_eq!(header.len(), 4096);
//!
//! let options = foreread::OpenOptions { write: true, ..Default::default() };
//! let disk = engine.open_with("/var/lib/images/disk.img", &options)?;
//! disk.write_at(&page, 12345, foreread::WriteMode::Back)?; // in memory, where reads find it
//! disk.flush()?; // on the device, for good
//! # Ok(()) }
//! ```
//!
//! In:    paths, and reads and writes of any offset and length.
//! Out:   the file's bytes; hits at the cost of a look-up and a copy, misses ahead of their reader.
//!        What a flush has acknowledged survives a kill and a power cut.
//! Never: more memory for pages than its bound. A file that others write at the same time.
//!
//! Every decision is made by [`foreread_core`], which knows no clock and no file; this crate owns
//! the ring, the memory and all of the `unsafe`.

/// The example in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod advice;
mod backend;
mod background;
mod delay;
mod driver;
mod error;
mod faults;
mod fetch;
mod file;
mod hits;
mod inbox;
mod lead;
mod open_files;
mod page_cache;
mod pin;
mod pool;
mod read_async;
mod reader;
mod ring;
mod shared;
mod stream;
mod volatile;
mod waiting;
mod write;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backend::Claims;
use background::Bell;
use driver::Driver;
use hits::Hits;
use inbox::Inbox;
use open_files::OpenFiles;
use pool::Pool;
use ring::Ring;
use shared::Shared;
use waiting::Waiting;

pub use advice::Advice;
pub use delay::{Delay, DelayModel, ParseDelayError};
pub use error::{EngineError, OpenError, ReadError, WriteError};
#[doc(hidden)]
pub use faults::{Faults, Mishap};
pub use fetch::Fetch;
pub use file::File;
pub use foreread_core as core;
pub use foreread_core::path::WriteMode;
pub use foreread_core::readahead::{Policy, Rules};
pub use foreread_core::sched::{BadSetting, Choice};
pub use page_cache::cached_pages;
pub use pin::Pin;
pub use read_async::ReadAt;
pub use ring::Io;
pub use stream::Stream;
#[doc(hidden)]
pub use volatile::Volatile;

use foreread_core::cache::{CacheStats, PageCache};
use foreread_core::geometry;
use foreread_core::path::{Config, IoPath};
use foreread_core::replay::Mismatch;
use foreread_core::sched::deadline;
use foreread_core::stats::Stats;
use foreread_core::trace::Event;
use foreread_core::units::{Bytes, Instant, Pages};
use foreread_core::windows::Windows;

/// The default memory bound, in bytes.
///
/// Large enough for the windows of hundreds of streams, small enough to be started beside a
/// database without asking.
pub const DEFAULT_MEMORY: u64 = 256 << 20;

/// A cache of pages and the ring that fills it. Cloning gives another handle to the same one.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    max_window: u64,
}

/// Settings of an [`Engine`].
#[derive(Clone, Debug)]
pub struct Builder {
    memory: u64,
    max_window: u64,
    policy: Policy,
    trace: usize,
    timeout: Option<Duration>,
    io: Io,
    rules: Rules,
    record: usize,
    dirty_limit: Option<u64>,
    dirty_age: Option<Duration>,
}

/// How a file is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Slows the device down, for demonstrations and tests: the reads are real, their completions
    /// come late.
    pub delay: Option<Delay>,
    /// Reads through the kernel's page cache instead of around it.
    pub buffered: bool,
    /// Opens it for writing, too. A block device is then this engine's alone: nobody can mount it.
    pub write: bool,
    /// Which request the device gets next, and how many writes it is given at once.
    pub scheduler: Choice,
    /// Makes requests fail on purpose: for tests.
    #[doc(hidden)]
    pub faults: Option<Arc<Faults>>,
    /// Reads and writes this device instead of the path, which is a name only: for tests of power
    /// cuts, in engines with [`Io::Threads`].
    #[doc(hidden)]
    pub volatile: Option<Arc<Volatile>>,
}

/// What an engine has done so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Reads that found all they wanted, and needed no driver.
    pub hits: u64,
    /// Misses that the thread which missed read by itself, as they were all there was to read.
    pub read_alone: u64,
    /// Of the path.
    pub path: Stats,
    /// Of the cache.
    pub cache: CacheStats,
    /// How large the windows were.
    pub windows: Windows,
    /// Markers that were dropped because too many waited for the driver.
    pub markers_dropped: u64,
    /// How much is held for writes at this moment: what the device does not have yet.
    pub dirty: Bytes,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            delay: None,
            buffered: false,
            write: false,
            scheduler: Choice::Deadline(deadline::Settings::default()),
            faults: None,
            volatile: None,
        }
    }
}

impl Engine {
    /// Settings to make an engine with.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            memory: DEFAULT_MEMORY,
            max_window: geometry::DEFAULT_WINDOW.0,
            policy: Policy::default(),
            trace: 0,
            timeout: None,
            io: Io::default(),
            rules: Rules::default(),
            record: 0,
            dirty_limit: None,
            dirty_age: None,
        }
    }

    /// Opens a regular file or a block device for reading.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or is nothing that has pages; the error says what to do.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, OpenError> {
        self.open_with(path, &OpenOptions::default())
    }

    /// Opens a file in a particular way.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_with(
        &self,
        path: impl AsRef<Path>,
        options: &OpenOptions,
    ) -> Result<File, OpenError> {
        File::open(&self.shared, path.as_ref(), options)
    }

    /// What has been done so far; in a forked child, nothing.
    #[must_use]
    pub fn counters(&self) -> Counters {
        if self.shared.is_forked() {
            return Counters::default();
        }
        let driver = self.shared.drive();
        Counters {
            hits: self.shared.hits.sum(),
            read_alone: driver.read_alone,
            path: driver.path.stats(),
            cache: driver.path.cache_stats(),
            windows: driver.path.windows(),
            markers_dropped: self.shared.inbox.dropped(),
            dirty: driver.path.dirty().bytes(),
        }
    }

    /// The largest window in bytes: what was asked for, in whole pages, or an eighth of the memory
    /// if that is less.
    #[must_use]
    pub fn max_window(&self) -> u64 {
        self.max_window
    }

    /// Changes one setting of the engine while it runs, from the next decision on:
    /// [`Self::settings`] has their names.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or the value makes no sense.
    pub fn set(&self, name: &str, value: &str) -> Result<(), BadSetting> {
        if self.shared.is_forked() {
            return Ok(());
        }
        let mut driver = self.shared.drive();
        driver.path.set(name, value)?;
        driver.note_ready();
        driver.start_all();
        Ok(())
    }

    /// All settings that [`Self::set`] changes, as they are now; in a forked child, none.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        if self.shared.is_forked() {
            return Vec::new();
        }
        self.shared.drive().path.settings()
    }

    /// Does to a fresh core what was done to this engine's, as far as [`Builder::record`] kept it,
    /// and compares all that it says: decisions, requests, frames, reads that are ready. For tests
    /// and for reports of faults: if it holds, everything that happened follows from the calls, in
    /// their order, whatever the threads and the device did. Takes what was kept.
    ///
    /// # Errors
    ///
    /// The first step that comes out differently.
    pub fn replay(&self) -> Result<(), Box<Mismatch>> {
        if self.shared.is_forked() {
            return Ok(());
        }
        let mut driver = self.shared.drive();
        let (config, log) = (driver.path.config(), driver.path.take_log());
        drop(driver);
        foreread_core::replay::replay(config, &log)
    }

    /// How reads get to the kernel, in words: `io_uring`, or threads and why.
    #[must_use]
    pub fn io(&self) -> String {
        if self.shared.is_forked() {
            return "nothing: a forked child".into();
        }
        self.shared.drive().ring().kind().to_string()
    }

    /// How many frames nobody fills, holds or has pinned, and how many there are: for tests that
    /// look for what was left behind. In a forked child, none of none.
    #[doc(hidden)]
    #[must_use]
    pub fn frames(&self) -> (u64, u64) {
        if self.shared.is_forked() {
            return (0, 0);
        }
        let mut driver = self.shared.drive();
        driver.take_posts(&self.shared.inbox);
        driver.reap_if_nobody_does();
        driver.start_all();
        (driver.path.idle_frames(), driver.path.frame_count().into())
    }

    /// Takes the events since the last call, oldest first, if [`Builder::trace`] asked for them; in
    /// a forked child, none.
    #[must_use]
    pub fn take_trace(&self) -> Vec<Event> {
        if self.shared.is_forked() {
            return Vec::new();
        }
        let mut driver = self.shared.drive();
        std::iter::from_fn(|| driver.path.poll_trace()).collect()
    }
}

impl Builder {
    /// The bound for all pages, cached and on their way, and for what is needed to find them, in
    /// bytes: from 1 MiB to 1 TiB, and [`DEFAULT_MEMORY`] unless this is said.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// The largest window, in bytes; an eighth of the memory is the most that can be had. Less than
    /// a page switches read-ahead off. 128 KiB unless this is said, as Linux has it; a fast device
    /// may want more (`read_ahead_kb` says what the kernel gives it).
    #[must_use]
    pub fn max_window(mut self, bytes: u64) -> Self {
        self.max_window = bytes;
        self
    }

    /// Who decides what is read ahead; [`Policy::Adaptive`] unless this is said.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Keeps the last so many events for [`Engine::take_trace`].
    #[must_use]
    pub fn trace(mut self, events: usize) -> Self {
        self.trace = events;
        self
    }

    /// How long a read may wait for its device before it is an error; unless this is said, for
    /// ever.
    ///
    /// The kernel has time-outs of its own for most devices, and none for some (NFS, FUSE, NBD). A
    /// miss of one page then costs a little more: it goes through the ring, because a thread that
    /// reads by itself cannot be called back. A read that was given up keeps its memory until the
    /// device answers, as the device may still write to it: up to an eighth of the bound each, so
    /// with a device that never answers the bound should have room for the reads that try.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Rules beside the policy's own; at first, none.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Keeps up to so many steps of all that is done to the core, for [`Engine::replay`].
    #[must_use]
    pub fn record(mut self, steps: usize) -> Self {
        self.record = steps;
        self
    }

    /// Who carries reads to the kernel.
    #[must_use]
    pub fn io(mut self, io: Io) -> Self {
        self.io = io;
        self
    }

    /// How many bytes may be written and not on the device yet, in all files together: who writes
    /// more waits. A quarter of the memory is the most, and unless this is said it is that.
    #[must_use]
    pub fn dirty_limit(mut self, bytes: u64) -> Self {
        self.dirty_limit = Some(bytes);
        self
    }

    /// How long what was written may wait for more of its kind before it goes to the device, in
    /// whole milliseconds; 5 seconds unless this is said.
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
    pub fn build(self) -> Result<Engine, EngineError> {
        let memory = Bytes(self.memory);
        if memory < PageCache::MIN_BOUND || memory > PageCache::MAX_BOUND {
            return Err(EngineError::Memory { bound: memory });
        }
        // The core cannot fail; what it is going to keep beside the pages is tried here.
        let beside = usize::try_from(self.memory / BESIDE_THE_PAGES).unwrap_or(usize::MAX);
        if Vec::<u8>::new().try_reserve_exact(beside).is_err() {
            let source = std::io::ErrorKind::OutOfMemory.into();
            return Err(EngineError::Arena { len: memory, source });
        }
        let max_window = Pages(self.max_window / foreread_core::units::PAGE_SIZE);
        let (policy, rules) = (self.policy, self.rules);
        let mut path = IoPath::new(Config { memory, policy, max_window, rules });
        path.set_trace(self.trace);
        path.record(self.record);
        let limit = self.dirty_limit.map(|bytes| ("dirty_limit", bytes.to_string()));
        let age = self.dirty_age.map(|age| ("dirty_age", age.as_millis().to_string()));
        for (name, value) in [limit, age].into_iter().flatten() {
            let max = u64::MAX.to_string();
            let value = if value.len() > max.len() { max } else { value };
            path.set(name, &value).expect("any number will do");
        }
        let max_window = path.max_window().bytes().0;
        let pool = Arc::new(Pool::new(path.frame_count())?);
        let table = path.table();
        let ring = Ring::with(Arc::clone(&pool), self.io)?;
        let sleeper = ring.sleeper();
        let shared = Arc::new_cyclic(|engine| {
            let bell = Arc::new(Bell::new(engine.clone()));
            let waiting = Waiting::new(Arc::clone(&bell));
            Shared {
                table,
                pool,
                driver: Mutex::new(Driver::new(path, ring, waiting)),
                sleeper,
                inbox: Inbox::new(),
                files: OpenFiles::default(),
                claims: Claims::default(),
                hits: Hits::default(),
                bell,
                timeout: self.timeout,
                process: std::process::id(),
            }
        });
        Ok(Engine { shared, max_window })
    }
}

/// What is kept beside the pages is less than this part of the bound.
const BESIDE_THE_PAGES: u64 = 7;

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    /// A marker that was posted while somebody held the driver for another reason, such as to read
    /// counters, once lay there until the next miss.
    #[test]
    fn a_marker_posted_while_somebody_drives_is_taken_when_they_stop() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).expect("a file");
        let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
        let stream = engine.open(&path).expect("it is there").stream();
        let mut page = vec![0; 4096];
        stream.read_at(&mut page, 0).expect("the first window, with a marker on page 1");
        stream.read_at(&mut page, 8192).expect("the window has come");

        let driving = engine.shared.drive();
        let stream = std::thread::scope(|scope| {
            let page = &mut page;
            // The stream comes back: its file would close, and that needs the driver.
            let hit = scope.spawn(move || {
                stream.read_at(page, 4096).expect("a hit");
                stream
            });
            hit.join().expect("it does not wait")
        });
        assert!(!engine.shared.inbox.is_empty(), "nobody else could drive");
        drop(driving);
        drop(stream);
        assert!(engine.shared.inbox.is_empty());
        assert_eq!(engine.counters().path.markers, 1);
    }

    /// They once stayed in the builder.
    #[test]
    fn rules_reach_the_core() {
        let rules = Rules { snap_eof: true, backwards: true, ..Rules::default() };
        let engine = Engine::builder().memory(1 << 20).rules(rules).build().expect("an engine");
        assert_eq!(engine.shared.drive().path.config().rules, rules);
    }

    /// A waker that ran while a thread's list of streams was borrowed, as one was swept from it,
    /// once panicked when it read.
    #[test]
    fn a_task_that_is_woken_by_the_end_of_a_stream_may_read() {
        struct Reads(File, std::sync::atomic::AtomicU64);

        impl std::task::Wake for Reads {
            fn wake(self: Arc<Self>) {
                let read = self.0.read_at(&mut [0], 0);
                self.1.fetch_add(read.map_or(0, |bytes| bytes as u64), Ordering::SeqCst);
            }
        }

        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).expect("a file");
        let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
        let file = engine.open(&path).expect("it is there");
        file.read_at(&mut [0], 0).expect("the thread has a stream of it");
        // More streams, which end when the list of the thread's has no more room.
        let open = || engine.open(&path).expect("it is there");
        let read = |file: &File| file.read_at(&mut [0], 4096 * 9).expect("a byte");
        let short_lived: Vec<_> = (0..2).map(|_| open()).inspect(|file| _ = read(file)).collect();
        for file in &short_lived {
            file.read_at(&mut [0], 4096 * 99).expect("a miss, for which there has to be a stream");
        }

        // A read that has come, and that nobody has looked at.
        let lead = |leads| {
            let mut driver = engine.shared.driver.lock().expect("nobody panicked");
            let me = waiting::Leader::Background;
            if leads { driver.waiting.lead(me) } else { driver.waiting.step_down(me) }
        };
        lead(true);
        let waker = Arc::new(Reads(file.clone(), 0.into()));
        let mut page = [0; 4096];
        let mut future = file.read_at_async(&mut page, 800_000);
        let task = std::task::Waker::from(Arc::clone(&waker));
        let mut context = std::task::Context::from_waker(&task);
        assert!(std::pin::Pin::new(&mut future).poll(&mut context).is_pending());
        engine.shared.sleeper.wait(None).expect("it has come");
        lead(false);

        drop(short_lived);
        let more: Vec<_> = (0..8).map(|_| open()).inspect(|file| _ = read(file)).collect();
        assert_eq!(waker.1.load(Ordering::SeqCst), 1, "{} files are open", more.len());
    }

    /// The list of open files was locked once while a file was made, and so while whoever made it
    /// woke tasks.
    #[test]
    fn a_task_that_is_woken_while_a_file_is_opened_may_open_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).expect("a file");
        let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
        let file = engine.open(&path).expect("it is there");
        let options = OpenOptions { buffered: true, ..OpenOptions::default() };
        let key = open_files::Key::new(&file.shared().backend, &options);
        let files = OpenFiles::default();
        let mut twice = None;
        let opened = files.find_or(key, || {
            // As if a task did, which wants the same file.
            twice = Some(files.find_or(key, || Ok(Arc::clone(file.shared())))?);
            let again = engine.open_with(&path, &options).expect("it is there");
            Ok(Arc::clone(again.shared()))
        });
        let opened = opened.expect("it may be opened");
        assert!(Arc::ptr_eq(&opened, &twice.expect("it was opened")), "the first one stays");
    }

    /// A kernel that refused the ring (a closed descriptor, a seccomp filter) once made the end of
    /// the file panic, because reads that would never end still held its frames.
    #[test]
    fn a_ring_that_broke_is_an_error_for_all_and_files_still_close() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).expect("a file");
        let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
        let file = engine.open(&path).expect("it is there");
        let mut page = vec![0; 4096];
        file.read_at(&mut page, 0).expect("the ring is whole");
        let mut driver = engine.shared.drive();
        // A read that begins and never ends.
        let stream = driver.path.stream(file.shared().id);
        let waiter = waiting::Waiter::Thread(std::thread::current());
        driver.begin(stream, Bytes(500_000), Bytes(4096), None, waiter);
        driver.break_down(libc::EBADF);
        drop(driver);

        assert!(file.read_at(&mut page, 0).is_ok(), "a hit needs no ring");
        let error = file.read_at(&mut page, 900_000).expect_err("a miss does");
        assert!(matches!(&error, ReadError::Io { source, .. }
            if source.raw_os_error() == Some(libc::EBADF)));
        assert!(matches!(engine.open(&path), Err(OpenError::Io { .. })));
        drop(file);
    }
}
