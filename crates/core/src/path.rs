//! The state machine of a storage path: files, streams, one cache, a scheduler per device.
//!
//! In:    reads that missed, markers that hits met, writes and flushes, arrivals and completions,
//!        and the time.
//! Out:   device I/O to start ([`IoPath::poll_dispatch`]), reads that are ready
//!        ([`IoPath::poll_ready`]), steps of writes ([`IoPath::poll_write`]), a trace.
//! Never: a page's bytes, a clock, a wait, an error of its own. A device's error is an input.
//!
//! This is glue. Its parts own their state: `read_path` (files, page-in, prefetch, device
//! queues) and `writeback`.
//!
//! ```text
//!   read() ---> page-in: missing? ---> prefetch ---> page-in: frames ---> device queues
//!                                                                             |
//!   poll_ready() <--- reads that wait for nothing more <--- complete() <--- poll_dispatch()
//!        |
//!   the driver copies from frames(), then release()
//! ```
//!
//! # The driver's contract
//!
//! The *driver* is the caller: an event loop, or threads that take turns. Hits do not come here:
//! the driver looks pages up in [`IoPath::table`], and calls [`IoPath::read`] only when one is
//! missing. `now` is not to go back; where it does, no time has passed.
//!
//! ```text
//!   call                                 what may follow, and what must
//!   add_device, open*, stream            anything; a stream ends with close_stream or its file
//!   read, read_planned                   poll_ready names it once; then frames, and release once;
//!                                        cancel_read at any time
//!   write                                poll_write: Fill once -> filled; Done once
//!   flush, write_back, write_zeroes,     poll_write: Act at most once -> acted or not_acted;
//!     discard                            Done once
//!   change_len                           poll_write: SetLen at most once -> acted or not_acted;
//!                                        Done once
//!   poll_dispatch = Some(io)             the driver starts the I/O; for a read of pages, arrived
//!                                        as they come; complete once, with its result. Where a
//!                                        read ends inside a page, the driver fills the rest of
//!                                        its frame with zeros before: they are the file's bytes
//!                                        if change_len makes it longer
//!   arrived                              the driver writes no more to the pages that are complete;
//!                                        poll_ready may name their readers
//!   anything with `now`                  more I/O, reads or steps may be there: poll_dispatch,
//!                                        poll_ready, poll_write until each says None; fill_holes
//!                                        where extent-mapped files are open
//!   poll_timeout = Some(at)              at that time: timeout
//!   pin of an orphan ends                unpinned
//!   close                                nothing but close_stream for that file's ids; what is in
//!                                        flight still completes, and reads are still released
//!   remove_device                        complete for what was in flight
//! ```
//!
//! Ids that are unknown, or used against this table, panic: they are bugs of the driver.
//!
//! ```
//! use foreread_core::geometry::Geometry;
//! use foreread_core::path::{Config, IoPath};
//! use foreread_core::prefetch::{Policy, Rules};
//! use foreread_core::sched::Choice;
//! use foreread_core::units::{ByteCount, Nanos};
//!
//! let mut path = IoPath::new(Config {
//!     memory: ByteCount(16 << 20),
//!     policy: Policy::Adaptive,
//!     max_window: Config::AUTO_WINDOW,
//!     rules: Rules::default(),
//! });
//! let geometry = Geometry::new(ByteCount(1 << 30));
//! let device = path.add_device(geometry, &Choice::for_device("deadline").unwrap());
//! let file = path.open(device, ByteCount(1 << 20)).unwrap();
//! let stream = path.stream(file);
//!
//! // A reader missed: the path asks for I/O, and the driver does it.
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
    Config, DeviceIo, DirectDone, Fault, LenChange, ReadReady, WriteFill, WriteMode, WriteReady,
    WriteStep,
};
pub use crate::extent_map::{BadExtents, ExtentMap, FileExtent, OpenError};
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

/// The state machine.
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
    /// A path with nothing in it.
    ///
    /// # Panics
    ///
    /// If `config.memory` is below [`PageCache::MIN_BOUND`]: the caller checks a user's value.
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

    /// What the path was made with.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config
    }

    /// The page table, for callers that serve hits.
    #[must_use]
    pub fn table(&self) -> Arc<PageTable> {
        self.read_path.page_in.cache.table()
    }

    /// How many frames there are.
    #[must_use]
    pub fn frame_count(&self) -> u32 {
        self.read_path.page_in.cache.frames()
    }

    /// How many frames were ever used: the first ones. A driver may have memory ready for the next.
    #[must_use]
    pub fn frames_used(&self) -> u32 {
        self.read_path.page_in.cache.frames_used()
    }

    /// How many frames are idle at this moment: neither filled nor held, nor pinned orphans.
    #[must_use]
    pub fn idle_frames(&self) -> u64 {
        self.read_path.page_in.cache.idle().0
    }

    /// How many frames are free at this moment: no page has them, and none is read into them.
    #[must_use]
    pub fn free_frames(&self) -> u64 {
        self.read_path.page_in.cache.free().0
    }

    /// The largest window: what was asked for, or an eighth of the memory.
    #[must_use]
    pub fn max_window(&self) -> Pages {
        self.read_path.prefetch.max_window()
    }

    /// Counters since the path was made.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.read_path.telemetry.stats
    }

    /// How large the windows were since the path was made.
    #[must_use]
    pub fn windows(&self) -> Windows {
        self.read_path.telemetry.windows
    }

    /// The cache's counters.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        self.read_path.page_in.cache.stats()
    }

    /// Keeps the last `events` events for [`Self::poll_trace`]; 0, as at first, keeps none.
    pub fn set_trace(&mut self, events: usize) {
        self.read_path.telemetry.trace.set_capacity(events);
    }

    /// How many events the trace keeps.
    #[must_use]
    pub fn trace_capacity(&self) -> usize {
        self.read_path.telemetry.trace.capacity()
    }

    /// The oldest event of the trace.
    pub fn poll_trace(&mut self) -> Option<TraceEvent> {
        self.read_path.telemetry.trace.pop()
    }

    /// How many events were lost because they were not taken in time.
    #[must_use]
    pub fn trace_lost(&self) -> u64 {
        self.read_path.telemetry.trace.lost()
    }

    /// Lets everything go on that can: writes that have their pages, those that wait for budget,
    /// and what waits for frames; then the flusher looks what is due.
    fn make_progress(&mut self, now: Nanos) {
        self.writeback.continue_rewrites(&mut self.read_path, now);
        loop {
            self.read_path.grant_planned(now);
            self.grant_frames(now);
            self.writeback.grant_pages(&mut self.read_path, now);
            self.writeback.grant_budget(&mut self.read_path, now);
            // A write that ends early may give its pages to another one.
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

    /// Starts what waits for frames, as far as there are frames.
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

/// What the path keeps for each frame beside the cache.
const BYTES_PER_FRAME: u64 =
    Waiters::BYTES_PER_FRAME + HintedFrames::BYTES_PER_FRAME + DirtyPages::BYTES_PER_FRAME;
