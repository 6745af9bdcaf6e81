//! The read path joins files, page-in, prefetch and device queues. It works without writes;
//! writeback is a layer above it.
//!
//! In:    reads that missed, markers that hits met, hints, completions.
//! Out:   requests in the device queues; reads that are ready; writes woken by the end of a fill.
//! Never: a partly started read. A read starts when all frames that it lacks are available.
//!
//! ```text
//!   read --> page-in: missing pages --> prefetch: the plan --> page-in: frames --> devices
//!                                                                                      |
//!   ready <-- reads with no wait left <-- waiters of the frame <-- completed ----------'
//! ```

pub(crate) mod completion;
mod cuts;
mod hint;
mod invariants;
mod planned;
mod reads;

use alloc::collections::VecDeque;

use self::reads::Reads;
use crate::cache::PageCache;
use crate::device_queue::{DeviceQueue, DeviceQueues};
use crate::driver_io::{Config, Fault};
use crate::files::{Files, OpenFile};
use crate::ids::{FileId, WriteId, slot_of};
use crate::page_in::{FilePages, PageIn};
use crate::prefetch::prefetcher::Prefetcher;
use crate::stats::Stats;
use crate::trace::Trace;
use crate::units::{Nanos, PageIndex, Pages};
use crate::windows::Windows;

/// Counters, window statistics and trace of a path.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    pub(crate) stats: Stats,
    pub(crate) windows: Windows,
    pub(crate) trace: Trace,
}

/// The state of a path that does not depend on writes.
#[derive(Debug)]
pub(crate) struct ReadPath {
    pub(crate) files: Files,
    pub(crate) page_in: PageIn,
    pub(crate) prefetch: Prefetcher,
    pub(crate) devices: DeviceQueues,
    pub(crate) reads: Reads,
    /// Writes whose frame has been filled or written, or has failed. The next call into writeback
    /// delivers them before it does anything else.
    pub(crate) woken_writes: VecDeque<(WriteId, Option<Fault>)>,
    pub(crate) telemetry: Telemetry,
    /// Time of the last completion, or of the last write request.
    pub(crate) clock: Nanos,
}

impl ReadPath {
    pub(crate) fn new(config: &Config, cache: PageCache) -> Self {
        let largest = largest_read(&cache);
        assert!(largest.0 <= cache.available().0.max(1), "a read gets its frames in the end");
        let max_window = (config.max_window != Config::AUTO_WINDOW).then_some(config.max_window);
        let mut path = Self {
            files: Files::new(config),
            page_in: PageIn::new(cache),
            prefetch: Prefetcher::new(config.policy, config.rules, max_window, largest),
            devices: DeviceQueues::default(),
            reads: Reads::default(),
            woken_writes: VecDeque::new(),
            telemetry: Telemetry::default(),
            clock: Nanos(0),
        };
        path.apply_policy();
        path
    }

    /// Applies the policy: unread pages are kept if the policy bounds their number, and demand
    /// reads precede read-ahead if it requires that.
    pub(crate) fn apply_policy(&mut self) {
        self.page_in.cache.set_keeps_unread(self.prefetch.keeps_unread());
        self.devices.defers_ahead = self.prefetch.defers_ahead();
    }

    /// Counts the run lengths of a file's streams for its device, before the file is closed.
    pub(crate) fn count_runs_of_closed(&mut self, file: FileId) {
        let Some(open) = self.files.get(file).filter(|open| !open.is_closing) else { return };
        let (device, file_end) = (open.device.index(), PageIndex(open.len.pages_up().0));
        let cache = &mut self.page_in.cache;
        self.prefetch.count_runs_of_closed(device, slot_of(file), file_end, cache);
    }

    /// Removes a closed file after a read was released or a write ended, if nothing uses it any
    /// more.
    pub(crate) fn end_file_if_over(&mut self, file: FileId) -> bool {
        let is_over = self.files.end_if_over(file);
        assert!(!is_over || self.files.get(file).is_none(), "{file:?} is gone when it is over");
        if is_over {
            self.prefetch.close_file(slot_of(file));
            // A write of zeroes may have ended after the file was closed.
            self.page_in.cache.forget_unstable_left(slot_of(file));
        }
        is_over
    }
}

/// Returns the view of an open file that page-in needs.
pub(crate) fn file_pages<'f>(
    file: FileId,
    open: &'f OpenFile,
    device: &DeviceQueue,
) -> FilePages<'f> {
    let max_io = device.geometry.max_io;
    FilePages { slot: slot_of(file), len: open.len, location: &open.location, max_io }
}

/// Returns the largest number of pages that one read may hold.
pub(crate) fn largest_read(cache: &PageCache) -> Pages {
    Pages(u64::from(cache.frames()) / ONE_READ_DENOM).max(Pages(1))
}

/// One read may hold an eighth of the frames, which also bounds a window. Six readers at a time
/// therefore never wait for each other's frames (a quarter is reserved for pins), and no reader can
/// monopolise the cache.
pub(crate) const ONE_READ_DENOM: u64 = 8;
