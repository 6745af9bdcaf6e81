//! Why an engine could not be made, or could not be used.
//!
//! In:    what the system said; a fork.
//! Out:   one line that says what was tried and what to do.
//! Never: a panic for something that came from outside.

use std::error::Error;
use std::fmt;
use std::io;

use foreread_core::cache::PageCache;
use foreread_core::units::ByteCount;

/// Why an engine could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// The memory bound is too small to hold windows, or too large to count.
    Memory {
        /// What was asked for.
        bound: ByteCount,
    },
    /// The system did not give the memory.
    Arena {
        /// How much.
        len: ByteCount,
        /// What it said.
        source: io::Error,
    },
    /// The system did not give an io_uring.
    Ring {
        /// What it said.
        source: io::Error,
    },
}

/// The process was forked after the engine was made: the ring, its memory and its threads are the
/// parent's. A child makes an engine of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ForkedError;

/// What a forked child reads, behind the name of what it tried.
pub(super) const MAKE_ANOTHER: &str =
    "this process was forked after the engine was made; make another one here";

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { bound } => write!(
                f,
                "a memory bound of {bound} bytes: give from {} bytes (1 MiB) to {} bytes",
                PageCache::MIN_BOUND,
                PageCache::MAX_BOUND
            ),
            Self::Arena { len, source } => {
                write!(f, "cannot reserve {len} bytes for pages ({source}): lower the memory bound")
            }
            Self::Ring { source } if is_out_of_descriptors(source) => {
                write!(f, "cannot open a ring ({source}): raise ulimit -n, or close files")
            }
            Self::Ring { source } => write!(
                f,
                "no io_uring here ({source}): allow it with sysctl kernel.io_uring_disabled=0, and in \
                 the seccomp profile of a container; memory for it is limited by ulimit -l"
            ),
        }
    }
}

impl Error for EngineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Memory { .. } => None,
            Self::Arena { source, .. } | Self::Ring { source } => Some(source),
        }
    }
}

impl fmt::Display for ForkedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MAKE_ANOTHER)
    }
}

impl Error for ForkedError {}

/// For programs whose own interface speaks `io::Error`.
impl From<ForkedError> for io::Error {
    fn from(error: ForkedError) -> Self {
        Self::new(io::ErrorKind::Unsupported, error)
    }
}

/// Whether the process, or the system, has as many files open as it may.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}
