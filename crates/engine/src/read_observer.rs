//! An observer that receives each read, to record it. The engine calls it on the reading thread,
//! never with its mutex held, and never in a forked child, where locks may be held by threads that
//! only the parent has.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A read of an engine's file, for [`EngineBuilder::observe_reads`](crate::EngineBuilder).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ReadEvent<'r> {
    /// The path by which the file was opened, or the name of its source.
    pub path: &'r Path,
    /// The number of the open handle, never reused in this process.
    pub handle: u64,
    /// The length of the file, as known to the engine.
    pub file_len: u64,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes, cut at the end of the file; at least 1.
    pub length: u64,
}

/// The caller's observer function.
#[derive(Clone)]
pub(crate) struct ReadObserver(pub(crate) Arc<dyn Fn(&ReadEvent<'_>) + Send + Sync>);

impl fmt::Debug for ReadObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadObserver")
    }
}
