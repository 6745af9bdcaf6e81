//! Reads that the engine's observer is told of.
//!
//! In:    a read that begins, or that was a hit.
//! Out:   a call of the observer, if the engine has one.
//! Never: a cost without one, but for a test of a flag of the stream.

use super::StreamReader;
use crate::handle::Handle;
use crate::read_observer::ReadEvent;

impl StreamReader {
    /// Tells the engine's observer of a read, if there is one.
    #[inline]
    pub(crate) fn observe(&self, handle: &Handle, offset: u64, length: usize) {
        if self.is_observed {
            observe(handle, offset, length as u64);
        }
    }
}

/// Tells the engine's observer of a read.
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
