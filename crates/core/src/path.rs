//! The state machine of a storage path: files, streams, one cache, a scheduler for each device.
//!
//! In:    reads that missed, markers that hits met, writes and flushes, arrivals and completions,
//!        and the time.
//! Out:   device I/O to start ([`IoPath::poll_dispatch`]), reads that are ready
//!        ([`IoPath::poll_ready`]), steps of writes ([`IoPath::poll_write`]), a trace.
//! Never: a page's bytes, a clock, a wait, an error of its own. A device's error is an input.
//!
//! This module is glue. `read_path` (files, page-in, prefetch, device queues) and `writeback` own
//! the state.
//!
//! ```text
//!   read() ---> page-in: missing? ---> prefetch ---> page-in: frames ---> device queues
//!                                                                             |
//!   poll_ready() <--- reads without a wait <------- complete() <------- poll_dispatch()
//!        |
//!   the driver copies from frames(), then release()
//! ```
//!
//! # The driver's contract
//!
//! The *driver* is the caller: an event loop, or threads that take turns. Hits do not enter the
//! path: the driver looks pages up in [`IoPath::table`] and calls [`IoPath::read`] only if one is
//! missing. `now` must not go backwards; an earlier time counts as no time passed.
//!
//! ```text
//!   call                                 allowed or required next
//!   add_device, open*, stream            anything; a stream ends with close_stream or its file
//!   read, read_planned                   poll_ready names it once; then frames, and release once;
//!                                        cancel_read at any time
//!   write                                poll_write: Fill once -> filled; Done once
//!   flush, write_back, write_zeroes,     poll_write: Act at most once -> acted or not_acted;
//!     discard                            Done once
//!   change_len                           poll_write: SetLen at most once -> acted or not_acted;
//!                                        Done once
//!   poll_dispatch = Some(io)             the driver starts the I/O; for a read of pages, arrived
//!                                        as they come; complete once, with the result. If a read
//!                                        ends inside a page, the driver first zeroes the rest of
//!                                        its frame: these become bytes of the file if change_len
//!                                        makes it longer
//!   arrived                              the driver no longer writes to the complete pages;
//!                                        poll_ready may name their readers
//!   anything with `now`                  more I/O, reads or steps may be available: call
//!                                        poll_dispatch, poll_ready and poll_write until each
//!                                        returns None; fill_holes if extent-mapped files are open
//!   poll_timeout = Some(at)              at that time: timeout
//!   pin of an orphan ends                unpinned
//!   close                                only close_stream for that file's ids; requests in flight
//!                                        still complete, and reads are still released
//!   remove_device                        complete for requests in flight
//! ```
//!
//! An unknown id, or one used against this table, is a bug of the driver and panics.
//!
//! ```
//! use foreread_core::geometry::Geometry;
//! use foreread_core::path::{Config, IoPath};
//! use foreread_core::prefetch::{Policy, Rules};
//! use foreread_core::sched::SchedulerKind;
//! use foreread_core::units::{ByteCount, Nanos};
//!
//! let mut path = IoPath::new(Config {
//!     memory: ByteCount(16 << 20),
//!     policy: Policy::Adaptive,
//!     max_window: Config::AUTO_WINDOW,
//!     rules: Rules::default(),
//! });
//! let geometry = Geometry::new(ByteCount(1 << 30));
//! let device = path.add_device(geometry, &SchedulerKind::for_device("deadline").unwrap());
//! let file = path.open(device, ByteCount(1 << 20)).unwrap();
//! let stream = path.stream(file);
//!
//! // A reader missed: the path requests I/O, and the driver does it.
//! let read = path.read(Nanos(0), stream, ByteCount(0), ByteCount(4096), None);
//! while let Some(io) = path.poll_dispatch(Nanos(0)) {
//!     // ... read `io.len` bytes at `io.offset` into the frames of `path.io_frames(io.tag)` ...
//!     path.complete(Nanos(100_000), io.tag, Ok(io.len));
//! }
//! let ready = path.poll_ready().expect("all that the read needs is there");
//! assert_eq!((ready.id, ready.len, ready.fault), (read, ByteCount(4096), None));
//! // ... copy from `path.frames(read)` ...
//! path.release(Nanos(100_000), read);
//! ```

mod direct;
mod files;
mod invariants;
mod log;
mod planned;
mod reads;
mod requests;
mod settings;
mod writes;

use alloc::sync::Arc;

use self::direct::DirectRequests;
use crate::cache::{CacheStats, PageCache};
use crate::call_log::CallLog;
pub use crate::device_queue::DeviceState;
pub use crate::device_queue::payload::{PageFill, PagePart};
pub use crate::driver_io::{
    Config, DeviceIo, DirectDone, Fault, LenChange, ReadReady, WriteFill, WriteMode, WriteRange,
    WriteReady, WriteStep,
};
pub use crate::extent_map::{ExtentMap, FileExtent, InvalidExtents, OpenError};
use crate::ids::Waiter;
pub use crate::ids::{DeviceId, DirectId, FileId, ReadId, StreamId, Tag, WriteId};
use crate::page_in::waiters::Waiters;
pub use crate::prefetch::TooManyWeights;
use crate::prefetch::hinted_frames::HintedFrames;
use crate::read_path::ReadPath;
use crate::stats::Stats;
use crate::table::PageTable;
use crate::trace::TraceEvent;
use crate::units::{Nanos, Pages};
use crate::windows::Windows;
use crate::writeback::Writeback;
use crate::writeback::dirty_pages::DirtyPages;

/// The state machine of a storage path.
#[derive(Debug)]
pub struct IoPath {
    config: Config,
    log: CallLog,
    read_path: ReadPath,
    writeback: Writeback,
    direct: DirectRequests,
}

/// # The path itself
impl IoPath {
    /// Creates an empty path.
    ///
    /// # Panics
    ///
    /// If `config.memory` is below [`PageCache::MIN_BOUND`]; the caller validates user input.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let cache = PageCache::sharing(config.memory, BYTES_PER_FRAME);
        let frames = cache.frames();
        Self {
            config,
            log: CallLog::default(),
            read_path: ReadPath::new(&config, cache),
            writeback: Writeback::new(frames),
            direct: DirectRequests::default(),
        }
    }

    /// Returns the configuration that the path was created with.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config
    }

    /// Returns the page table, for callers that serve hits.
    #[must_use]
    pub fn table(&self) -> Arc<PageTable> {
        self.read_path.page_in.cache.table()
    }

    /// Returns the number of frames.
    #[must_use]
    pub fn frame_count(&self) -> u32 {
        self.read_path.page_in.cache.frames()
    }

    /// Returns the number of frames that were ever used, which are the first ones. A driver may
    /// prepare memory for the next.
    #[must_use]
    pub fn frames_used(&self) -> u32 {
        self.read_path.page_in.cache.frames_used()
    }

    /// Returns the number of frames that are neither being filled nor held nor pinned orphans.
    #[must_use]
    pub fn idle_frames(&self) -> u64 {
        self.read_path.page_in.cache.idle().0
    }

    /// Returns the number of frames that have no page and are not being filled.
    #[must_use]
    pub fn free_frames(&self) -> u64 {
        self.read_path.page_in.cache.free().0
    }

    /// Returns the largest window: the configured one, or an eighth of the memory.
    #[must_use]
    pub fn max_window(&self) -> Pages {
        self.read_path.prefetch.max_window()
    }

    /// Returns the counters since the path was created.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.read_path.telemetry.stats
    }

    /// Returns the distribution of window sizes since the path was created.
    #[must_use]
    pub fn windows(&self) -> Windows {
        self.read_path.telemetry.windows
    }

    /// Returns the cache's counters.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        self.read_path.page_in.cache.stats()
    }

    /// Keeps the last `events` events for [`Self::poll_trace`]; 0, the default, keeps none.
    pub fn set_trace(&mut self, events: usize) {
        self.read_path.telemetry.trace.set_capacity(events);
    }

    /// Returns the number of events that the trace keeps.
    #[must_use]
    pub fn trace_capacity(&self) -> usize {
        self.read_path.telemetry.trace.capacity()
    }

    /// Takes the oldest event of the trace.
    pub fn poll_trace(&mut self) -> Option<TraceEvent> {
        self.read_path.telemetry.trace.pop()
    }

    /// Returns the number of events that were overwritten before they were taken.
    #[must_use]
    pub fn trace_lost(&self) -> u64 {
        self.read_path.telemetry.trace.lost()
    }

    /// Lets everything proceed that can: writes that have their pages, writes that wait for budget,
    /// and reads and writes that wait for frames. Then the flusher starts the device writes that
    /// are due.
    fn make_progress(&mut self, now: Nanos) {
        self.writeback.continue_rewrites(&mut self.read_path, now);
        loop {
            self.read_path.grant_planned(now);
            self.grant_frames(now);
            self.writeback.grant_pages(&mut self.read_path, now);
            self.writeback.grant_budget(&mut self.read_path, now);
            // A write that ends early may unlock its pages for another one.
            if !self.writeback.has_unlocked() {
                break;
            }
        }
        self.writeback.write_out(&mut self.read_path, now);
        debug_assert!(self.read_path.woken_writes.is_empty(), "writes are told at once");
        if cfg!(debug_assertions) {
            self.assert_in_flight();
        }
    }

    /// Starts reads and writes that wait for frames, in order, while frames are available.
    fn grant_frames(&mut self, now: Nanos) {
        let Self { read_path, writeback, .. } = self;
        while let Some(waiter) = read_path.reads.frame_line.pop_front() {
            let has_started = match waiter {
                Waiter::Read(id) => read_path.try_start(now, id, true),
                Waiter::Write(id) => writeback.try_frames(read_path, now, id, true),
            };
            if !has_started {
                debug_assert!(!read_path.reads.frame_line.contains(&waiter), "it waits twice");
                read_path.reads.frame_line.push_front(waiter);
                return;
            }
        }
    }
}

/// Memory that the path needs for each frame outside the cache.
const BYTES_PER_FRAME: u64 =
    Waiters::BYTES_PER_FRAME + HintedFrames::BYTES_PER_FRAME + DirtyPages::BYTES_PER_FRAME;
