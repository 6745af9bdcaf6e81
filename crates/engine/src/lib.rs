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
//! disk.write_at(&page, 12345, foreread::WriteMode::WriteBack)?; // in memory, where reads find it
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
mod builder;
mod delay;
mod driver;
mod error;
mod extents;
mod faults;
mod fetch;
mod file;
mod hits;
mod inbox;
mod lead;
mod open_files;
mod open_options;
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
use std::sync::Arc;

use shared::Shared;

pub use advice::Advice;
pub use builder::{DEFAULT_MEMORY, EngineBuilder};
pub use delay::{Delay, DelayModel, ParseDelayError};
pub use error::{EngineError, OpenError, ReadError, WriteError};
pub use extents::FileExtent;
#[doc(hidden)]
pub use faults::{Faults, Mishap};
pub use fetch::OwnedRead;
pub use file::File;
pub use foreread_core as core;
pub use foreread_core::path::{BadExtents, DeviceState, TooManyWeights, WriteMode};
pub use foreread_core::prefetch::{Policy, Rules};
pub use foreread_core::sched::{BadSetting, Choice};
pub use open_options::OpenOptions;
pub use page_cache::cached_pages;
pub use pin::PageRef;
pub use read_async::ReadAt;
pub use ring::IoBackend;
pub use stream::ReadStream;
#[doc(hidden)]
pub use volatile::Volatile;

use foreread_core::cache::CacheStats;
use foreread_core::replay::Mismatch;
use foreread_core::stats::Stats;
use foreread_core::trace::TraceEvent;
use foreread_core::units::ByteCount;
use foreread_core::windows::Windows;

/// A cache of pages and the ring that fills it. Cloning gives another handle to the same one.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    /// As it was at first.
    max_window: u64,
}

/// Counters of what an engine has done so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Reads that found all they wanted, and needed no driver.
    pub hits: u64,
    /// Misses that the calling thread read by itself, as they were all there was to read.
    pub read_alone: u64,
    /// Counters of the read and write path.
    pub path: Stats,
    /// Counters of the page cache.
    pub cache: CacheStats,
    /// Counts of windows by their size.
    pub windows: Windows,
    /// Markers that were dropped because too many waited for the driver.
    pub markers_dropped: u64,
    /// Bytes that are dirty at this moment: written, and not on the device yet.
    pub dirty: ByteCount,
}

impl Engine {
    /// Returns a builder with the default settings.
    #[must_use]
    pub fn builder() -> EngineBuilder {
        EngineBuilder::new()
    }

    /// Opens a regular file or a block device for reading.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or is of another kind; the error says what to do.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, OpenError> {
        self.open_with(path, &OpenOptions::default())
    }

    /// Opens a file with options, for example for writing.
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

    /// Returns the counters; in a forked child, zeros.
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

    /// Returns the largest window that can be had, in bytes: what was asked for, in whole pages, or
    /// an eighth of the memory if that is less, or if windows are learnt.
    #[must_use]
    pub fn max_window(&self) -> u64 {
        if self.shared.is_forked() {
            return self.max_window;
        }
        self.shared.drive().path.max_window().bytes().0
    }

    /// Changes one setting of the engine while it runs, from the next decision on:
    /// [`Self::settings`] has their names.
    ///
    /// # Errors
    ///
    /// If there is no setting of that name, or the value is not valid.
    pub fn set(&self, name: &str, value: &str) -> Result<(), BadSetting> {
        if self.shared.is_forked() {
            return Ok(());
        }
        let mut driver = self.shared.drive();
        driver.path.set(name, value)?;
        // Requests that the new value lets go on need not wait for another event.
        let now = driver.now();
        driver.path.timeout(now);
        driver.note_ready();
        driver.start_all();
        Ok(())
    }

    /// Sets the weight of `submitter` ([`ReadStream::set_submitter`]): where memory is short,
    /// [`Policy::Adaptive`] shares it out for read-ahead by weight first, however many streams each
    /// has; what one cannot use is lent. All submitters without a weight are one, of weight 1; 0
    /// makes this one of them again.
    ///
    /// # Errors
    ///
    /// If [`TooManyWeights::MOST`] others have one: then nothing has changed.
    pub fn set_weight(
        &self,
        submitter: foreread_core::sched::Submitter,
        weight: u32,
    ) -> Result<(), TooManyWeights> {
        if self.shared.is_forked() {
            return Ok(());
        }
        self.shared.drive().path.set_weight(submitter, weight)
    }

    /// Returns all settings that [`Self::set`] changes, as they are now; in a forked child, none.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        if self.shared.is_forked() {
            return Vec::new();
        }
        self.shared.drive().path.settings()
    }

    /// Replays on a fresh core what [`EngineBuilder::record`] kept, and compares all output:
    /// decisions, requests, frames, reads that are ready. For tests and for reports of faults: if
    /// it is equal, everything that happened follows from the calls, in their order, whatever the
    /// threads and the device did. Takes what was kept.
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
    pub fn io_backend(&self) -> String {
        if self.shared.is_forked() {
            return "nothing: a forked child".into();
        }
        self.shared.drive().ring().kind().to_string()
    }

    /// The number of idle frames (not being filled, held or pinned), and of all frames: for tests
    /// that look for what was left behind. In a forked child, none of none.
    #[doc(hidden)]
    #[must_use]
    pub fn frames(&self) -> (u64, u64) {
        if self.shared.is_forked() {
            return (0, 0);
        }
        let mut driver = self.shared.drive();
        driver.take_posts(&self.shared.inbox);
        driver.reap_unless_led();
        driver.start_all();
        (driver.path.idle_frames(), driver.path.frame_count().into())
    }

    /// Takes the events since the last call, oldest first, if [`EngineBuilder::trace`] asked for
    /// them; in a forked child, none.
    #[must_use]
    pub fn take_trace(&self) -> Vec<TraceEvent> {
        if self.shared.is_forked() {
            return Vec::new();
        }
        let mut driver = self.shared.drive();
        std::iter::from_fn(|| driver.path.poll_trace()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use foreread_core::sched::Submitter;

    use super::*;

    /// A marker that was posted while another thread held the driver for another reason, such as
    /// to read counters, once lay there until the next miss.
    #[test]
    fn a_marker_posted_while_another_thread_drives_is_taken_when_it_stops() {
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
        assert!(!engine.shared.inbox.is_empty(), "no other thread could drive");
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

        // A read that has completed, and that is not reaped.
        let lead = |leads| {
            let mut driver = engine.shared.driver.lock().expect("no driver panicked");
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

    /// The list of open files was once locked while a file was made, and so while its opener woke
    /// tasks.
    #[test]
    fn a_task_that_is_woken_while_a_file_is_opened_may_open_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).expect("a file");
        let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
        let file = engine.open(&path).expect("it is there");
        let options = OpenOptions { buffered: true, ..OpenOptions::default() };
        let key = open_files::Key::new(&file.shared().backend, &options);
        let files = open_files::OpenFiles::default();
        let mut twice = None;
        let opened = files.find_or(&key, || {
            // As if a task did, which wants the same file.
            twice = Some(files.find_or(&key, || Ok(Arc::clone(file.shared())))?);
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
        driver.begin(stream, ByteCount(500_000), ByteCount(4096), None, waiter);
        driver.break_down(libc::EBADF);
        drop(driver);

        assert!(file.read_at(&mut page, 0).is_ok(), "a hit needs no ring");
        let error = file.read_at(&mut page, 900_000).expect_err("a miss does");
        assert!(matches!(&error, ReadError::Io { source, .. }
            if source.raw_os_error() == Some(libc::EBADF)));
        assert!(matches!(engine.open(&path), Err(OpenError::Io { .. })));
        drop(file);
    }

    /// A writer that had copied once gave its page to a waiter that had got the error and left:
    /// there was no entry of it to note the news in.
    #[test]
    fn a_ring_that_broke_while_a_writer_copied_is_an_error_for_it_and_for_later_calls() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).expect("a file");
        let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
        let options = OpenOptions { write: true, ..OpenOptions::default() };
        let file = engine.open_with(&path, &options).expect("it is there");
        let id = file.shared().id;
        let mut driver = engine.shared.drive();
        let mut write = || {
            driver.begin_write(|path, now| {
                let (mode, whose) = (WriteMode::WriteBack, Submitter::default());
                path.write(now, id, ByteCount(0), ByteCount(4096), mode, whose)
            })
        };
        let (copies, waits) = (waiting::Ticket::Write(write()), waiting::Ticket::Write(write()));
        assert!(driver.waiting.take_news(copies).is_some() && !driver.waiting.has_news(waits));
        driver.break_down(libc::EBADF);
        driver.waiting.forget(waits);
        let waiting::Ticket::Write(copies) = copies else { unreachable!("as it was made") };
        driver.stepped(copies, |path, now| path.filled(now, copies));
        drop(driver);

        for wrote in [file.write_at(&[1; 4096], 0, WriteMode::WriteBack), file.flush()] {
            let Err(WriteError::Io { source, .. }) = wrote else { panic!("{wrote:?}") };
            assert_eq!(source.raw_os_error(), Some(libc::EBADF));
        }
    }

    /// Threads that slept in the ring or were parked once slept on when a driver had panicked.
    #[test]
    fn a_driver_that_panics_leaves_no_thread_waiting() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).expect("a file");
        for io in [IoBackend::Threads, IoBackend::Probe] {
            let engine =
                Engine::builder().memory(1 << 20).io_backend(io).build().expect("an engine");
            let faults = Arc::new(Faults::default());
            faults.inject_writes(0..256, 0..u32::MAX, Mishap::Hold);
            let faults = Some(faults);
            let options = OpenOptions { write: true, faults, ..OpenOptions::default() };
            let file = engine.open_with(&path, &options).expect("it is there");
            let writers: Vec<_> = (0..3)
                .map(|page| {
                    let file = file.clone();
                    std::thread::spawn(move || {
                        file.write_at(&[1; 4096], page * 65536, WriteMode::WriteThrough)
                    })
                })
                .collect();
            options.faults.expect("it is there").wait_held(1);
            let shared = Arc::clone(&engine.shared);
            let driver = std::thread::spawn(move || {
                let _driving = shared.drive();
                panic!("as a test wants it");
            });
            assert!(driver.join().is_err());
            for writer in writers {
                assert!(writer.join().is_err(), "it is told by a panic of its own");
            }
        }
    }
}
