//! Calls of the engine's read observer. Without an observer they cost one test of a flag.

use super::StreamReader;
use crate::handle::Handle;
use crate::read_observer::ReadEvent;

impl StreamReader {
    /// Reports a read to the engine's observer, if there is one.
    #[inline]
    pub(crate) fn observe(&self, handle: &Handle, offset: u64, length: usize) {
        if self.is_observed {
            observe(handle, offset, length as u64);
        }
    }
}

/// Reports a read to the engine's observer.
#[cold]
pub(crate) fn observe(handle: &Handle, offset: u64, length: u64) {
    let engine = &handle.file.engine;
    let Some(observer) = &engine.observer else { return };
    if length == 0 || engine.check_process().is_err() {
        return;
    }
    let (path, file_len) = (handle.path.as_path(), handle.file.len().0);
    (observer.0)(&ReadEvent { path, handle: handle.serial, file_len, offset, length });
}
