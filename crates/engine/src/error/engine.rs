//! Errors from creating an engine, and from using it.

use std::error::Error;
use std::fmt;
use std::io;

use foreread_core::cache::PageCache;
use foreread_core::units::ByteCount;

/// An error from creating an engine, or from using it in a forked child.
#[derive(Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// The memory bound is too small to hold windows, or above the supported maximum.
    Memory {
        /// Requested memory bound.
        bound: ByteCount,
    },
    /// The system refused the memory.
    Arena {
        /// Size of the refused allocation.
        len: ByteCount,
        /// Error from the system.
        source: io::Error,
    },
    /// The system refused an io_uring.
    Ring {
        /// Error from the system.
        source: io::Error,
    },
    /// The process was forked after the engine was created: the ring, its memory and its threads
    /// belong to the parent. The child has to create a new engine.
    Forked,
}

/// The process is a forked child of the one that created the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkedError;

/// Message for a forked child; the failed operation precedes it.
pub(super) const MAKE_ANOTHER: &str =
    "this process was forked after the engine was created; create another engine in it";

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { bound } => write!(
                f,
                "invalid memory bound of {bound} bytes: give {} bytes (1 MiB) to {} bytes",
                PageCache::MIN_BOUND,
                PageCache::MAX_BOUND
            ),
            Self::Arena { len, source } => {
                write!(f, "cannot reserve {len} bytes for pages ({source}): lower the memory bound")
            }
            Self::Ring { source } if is_out_of_descriptors(source) => {
                write!(f, "cannot create an io_uring ({source}): raise ulimit -n, or close files")
            }
            Self::Ring { source } => write!(
                f,
                "io_uring is not available ({source}): allow it with sysctl \
                 kernel.io_uring_disabled=0, and in the seccomp profile of a container; ulimit -l \
                 limits its memory"
            ),
            Self::Forked => f.write_str(MAKE_ANOTHER),
        }
    }
}

impl Error for EngineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Memory { .. } | Self::Forked => None,
            Self::Arena { source, .. } | Self::Ring { source } => Some(source),
        }
    }
}

impl From<ForkedError> for EngineError {
    fn from(ForkedError: ForkedError) -> Self {
        Self::Forked
    }
}

impl From<ForkedError> for io::Error {
    fn from(ForkedError: ForkedError) -> Self {
        EngineError::Forked.into()
    }
}

/// Allows `?` in functions that return `io::Error`.
impl From<EngineError> for io::Error {
    fn from(error: EngineError) -> Self {
        let kind = match &error {
            EngineError::Memory { .. } => io::ErrorKind::InvalidInput,
            EngineError::Arena { .. } => io::ErrorKind::OutOfMemory,
            EngineError::Ring { source } => source.kind(),
            EngineError::Forked => io::ErrorKind::Unsupported,
        };
        Self::new(kind, error)
    }
}

/// Returns true if the process or the system has run out of file descriptors.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}
