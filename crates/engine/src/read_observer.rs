//! What a caller is told of each read, to record it.
//!
//! In:    a function of the caller's.
//! Out:   its calls: file, offset and length of each read, in the thread that reads.
//! Never: a call with the engine's mutex held; a call in a forked child, whose locks may be held by
//!        threads that only the parent has.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A read of an engine's file, for [`EngineBuilder::observe_reads`](crate::EngineBuilder).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ReadEvent<'r> {
    /// The path that the file was opened by, or the name of its source.
    pub path: &'r Path,
    /// The number of the open handle, which is never used again in this process.
    pub handle: u64,
    /// The length of the file, as the engine knows it.
    pub file_len: u64,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes, cut at the end of the file; at least 1.
    pub length: u64,
}

/// The caller's function.
#[derive(Clone)]
pub(crate) struct ReadObserver(pub(crate) Arc<dyn Fn(&ReadEvent<'_>) + Send + Sync>);

impl fmt::Debug for ReadObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadObserver")
    }
}
