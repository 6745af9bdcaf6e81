//! The path's end of its log: when it is kept, and what a replay asks before each call.
//!
//! In:    how much may be kept.
//! Out:   the steps; to [`crate::replay`], whether a call makes sense.
//! Never: a step that changes the path. Recorded or not, it does the same.

use alloc::vec::Vec;

use super::layout::FileLocation;
use super::waiters::Waiter;
use super::{Config, DeviceId, FileId, IoPath, ReadId, StreamId, Tag};
use crate::replay::{CallLog, LogStep, PathCall, PathOutput};
use crate::table::Frame;

impl IoPath {
    /// Keeps up to `steps` of a log for [`Self::take_log`]; it ends if they are not taken in time.
    /// 0, as at first, keeps none.
    ///
    /// # Panics
    ///
    /// If anything was done to the path before: a log that begins later cannot be replayed.
    pub fn record(&mut self, steps: usize) {
        let is_new = self.devices.is_untouched() && self.files.is_untouched();
        assert!(is_new || steps == 0, "a log begins where its path does");
        *self.log() = if steps == 0 { CallLog::Off } else { CallLog::recording(steps) };
    }

    /// The steps since the last time, for [`replay`](crate::replay::replay).
    pub fn take_log(&mut self) -> Vec<LogStep> {
        let (stats, cache, idle) = (self.stats, self.cache.stats(), self.cache.idle());
        self.log().did(|| PathCall::TakeLog);
        self.log().gave(|| PathOutput::State { stats, cache, idle });
        self.log().take()
    }

    /// What the path was made with.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config
    }

    #[inline]
    pub(crate) fn log(&mut self) -> &mut CallLog {
        self.cache.log()
    }

    pub(crate) fn has_device(&self, device: DeviceId) -> bool {
        self.devices.get(device).is_some()
    }

    pub(crate) fn has_files_on(&self, device: DeviceId) -> bool {
        self.files.any(|file| file.device == device && !file.is_closing)
    }

    pub(crate) fn is_open(&self, file: FileId) -> bool {
        self.files.get(file).is_some_and(|file| !file.is_closing)
    }

    pub(crate) fn is_in_one_run(&self, file: FileId) -> bool {
        self.files.get(file).is_some_and(|file| matches!(file.place, FileLocation::Run(_)))
    }

    pub(crate) fn has_stream(&self, stream: StreamId) -> bool {
        self.streams.get(stream).is_some_and(|stream| self.is_open(stream.file))
    }

    pub(crate) fn is_flying(&self, tag: Tag) -> bool {
        self.flying.get(tag).is_some()
    }

    pub(crate) fn is_ready(&self, id: ReadId) -> bool {
        self.reads.get(id).is_some_and(|read| read.wanted.outstanding == 0)
            && !self.queued.contains(&Waiter::Read(id))
            && !self.ready.iter().any(|ready| ready.id == id)
    }

    pub(crate) fn is_pinned_orphan(&self, frame: Frame) -> bool {
        self.cache.is_pinned_orphan(frame)
    }
}
