//! The read path: files, page-in, prefetch and device queues, joined. It is complete without
//! writes; writeback works on top of it.
//!
//! In:    reads that missed, markers that hits met, hints, completions.
//! Out:   requests in the device queues; reads that are ready; writes that a frame's end wakes.
//! Never: half a read. It starts when all frames that it lacks can be had, or not at all.
//!
//! ```text
//!   read --> page-in: what is missing --> prefetch: what to read --> page-in: frames --> devices
//!                                                                                           |
//!   ready <-- reads that wait for nothing more <-- waiters of the frame <-- completed ------'
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

/// What a path tells of itself.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    pub(crate) stats: Stats,
    pub(crate) windows: Windows,
    pub(crate) trace: Trace,
}

/// Everything that a path has which only reads.
#[derive(Debug)]
pub(crate) struct ReadPath {
    pub(crate) files: Files,
    pub(crate) page_in: PageIn,
    pub(crate) prefetch: Prefetcher,
    pub(crate) devices: DeviceQueues,
    pub(crate) reads: Reads,
    /// Writes that waited for a frame that is filled, written or failed now: they are told by the
    /// next call of writeback, before anything else happens.
    pub(crate) woken_writes: VecDeque<(WriteId, Option<Fault>)>,
    pub(crate) telemetry: Telemetry,
    /// When something last came back from a device, or was to be written.
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

    /// Pages that were read ahead are kept for their readers if the policy says how many there are,
    /// and demand reads go before read-ahead if it says so.
    pub(crate) fn apply_policy(&mut self) {
        self.page_in.cache.set_keeps_unread(self.prefetch.keeps_unread());
        self.devices.defers_ahead = self.prefetch.defers_ahead();
    }

    /// A file is about to be closed: how long its streams ran is counted for its device.
    pub(crate) fn count_runs_of_closed(&mut self, file: FileId) {
        let Some(open) = self.files.get(file).filter(|open| !open.is_closing) else { return };
        let (device, file_end) = (open.device.index(), PageIndex(open.len.pages_up().0));
        let cache = &mut self.page_in.cache;
        self.prefetch.count_runs_of_closed(device, slot_of(file), file_end, cache);
    }

    /// A read has been released, or a write has ended: a closed file may go now.
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

/// An open file, as far as its pages are read from its device.
pub(crate) fn file_pages<'f>(
    file: FileId,
    open: &'f OpenFile,
    device: &DeviceQueue,
) -> FilePages<'f> {
    let max_io = device.geometry.max_io;
    FilePages { slot: slot_of(file), len: open.len, location: &open.location, max_io }
}

/// The most pages that one read may hold.
pub(crate) fn largest_read(cache: &PageCache) -> Pages {
    Pages(u64::from(cache.frames()) / ONE_READ_DENOM).max(Pages(1))
}

/// One read may hold an eighth of the frames, and a window is no larger: so six readers at a time
/// never wait for each other's frames (a quarter is kept for pins), and no reader can take the
/// cache for itself.
pub(crate) const ONE_READ_DENOM: u64 = 8;
