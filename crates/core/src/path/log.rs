//! The path's side of its log: recording, and the checks that a replay makes before each call.
//! Recording never changes the path's decisions.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::IoPath;
use crate::cache::FlagLog;
use crate::call_log::CallLog;
use crate::call_log::steps::{LogStep, Mismatch, PathCall, PathOutput};
use crate::ids::{DeviceId, FileId, ReadId, StreamId, Tag, WriteId};
use crate::table::Frame;
use crate::units::ByteCount;

/// # Log
impl IoPath {
    /// Keeps up to `steps` steps of a log for [`Self::take_log`]; the log ends if they are not
    /// taken in time. 0, the default, keeps none.
    ///
    /// # Panics
    ///
    /// If the path was used before: a log that begins later cannot be replayed.
    pub fn record(&mut self, steps: usize) {
        let path = &mut self.read_path;
        let is_new = path.devices.is_untouched() && path.files.is_untouched();
        assert!(is_new || steps == 0, "a log begins where its path does");
        let is_off = steps == 0;
        self.log = if is_off { CallLog::Off } else { CallLog::recording(steps) };
        let flags = if is_off { FlagLog::Off } else { FlagLog::recording() };
        *path.page_in.cache.flag_log() = flags;
    }

    /// Takes the steps since the last call, for [`replay`](crate::replay::replay).
    pub fn take_log(&mut self) -> Vec<LogStep> {
        let cache = &self.read_path.page_in.cache;
        let (cache, idle) = (cache.stats(), cache.idle());
        let stats = self.read_path.telemetry.stats;
        self.did(|| PathCall::TakeLog);
        self.gave(|| PathOutput::State { stats, cache, idle });
        self.log.take()
    }

    /// Logs a call.
    #[inline]
    pub(super) fn did(&mut self, call: impl FnOnce() -> PathCall) {
        self.log.did(self.read_path.page_in.cache.flag_log(), call);
    }

    /// Logs an output of the path.
    #[inline]
    pub(super) fn gave(&mut self, output: impl FnOnce() -> PathOutput) {
        self.log.gave(self.read_path.page_in.cache.flag_log(), output);
    }

    /// Logs an output that has to be computed, if a log is kept.
    #[inline]
    pub(super) fn gave_with(&mut self, output: impl FnOnce(&Self) -> PathOutput) {
        if !matches!(self.log, CallLog::Off) {
            let output = output(self);
            self.gave(|| output);
        }
    }

    /// Starts to follow a log.
    pub(crate) fn follow(&mut self, steps: Vec<LogStep>) {
        self.log = CallLog::replaying(steps);
        *self.read_path.page_in.cache.flag_log() = FlagLog::replaying();
    }

    /// In a replay, returns the next call to make.
    pub(crate) fn next_call(&mut self) -> Result<Option<PathCall>, Box<Mismatch>> {
        self.log.next_input(self.read_path.page_in.cache.flag_log())
    }

    /// In a replay, returns the number of steps followed.
    pub(crate) fn steps_followed(&self) -> usize {
        self.log.at()
    }

    pub(crate) fn has_device(&self, device: DeviceId) -> bool {
        self.read_path.devices.get(device).is_some()
    }

    pub(crate) fn has_files_on(&self, device: DeviceId) -> bool {
        self.read_path.files.any(|file| file.device == device && !file.is_closing)
    }

    pub(crate) fn is_open(&self, file: FileId) -> bool {
        self.read_path.files.is_open(file)
    }

    pub(crate) fn is_contiguous(&self, file: FileId) -> bool {
        self.read_path.files.get(file).is_some_and(crate::files::OpenFile::is_contiguous)
    }

    pub(crate) fn has_stream(&self, stream: StreamId) -> bool {
        self.read_path.files.stream(stream).is_some_and(|stream| self.is_open(stream.file))
    }

    pub(crate) fn can_arrive(&self, tag: Tag, bytes: ByteCount) -> bool {
        self.read_path.devices.find(tag).is_some_and(|request| request.can_arrive(bytes))
    }

    pub(crate) fn can_complete(&self, tag: Tag, result: Result<ByteCount, i32>) -> bool {
        self.read_path.devices.find(tag).is_some_and(|request| request.can_complete(result))
    }

    pub(crate) fn is_ready(&self, id: ReadId) -> bool {
        self.read_path.reads.is_ready(id)
    }

    pub(crate) fn is_pinned_orphan(&self, frame: Frame) -> bool {
        self.read_path.page_in.cache.is_pinned_orphan(frame)
    }

    pub(crate) fn awaits_driver(&self, id: WriteId, is_act: bool) -> bool {
        self.writeback.awaits_driver(id, is_act)
    }
}
