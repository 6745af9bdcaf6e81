//! Backends for sources. They have no descriptor: the driver passes their requests to the source.

use foreread_core::units::ByteCount;

use super::{Backend, FileIdentity, Medium};
use crate::source::OpenSource;

impl Backend {
    /// Creates the backend of a source of `len` bytes.
    pub(crate) fn of_source(source: OpenSource, len: ByteCount) -> Self {
        let identity = FileIdentity::Source(source.address());
        let mut backend = Self::new(Medium::Source(source), identity, len, None, None);
        backend.geometry.depth = SOURCE_DEPTH;
        backend
    }

    /// Returns the source, if this is one.
    pub(crate) fn source(&self) -> Option<&OpenSource> {
        match &self.medium {
            Medium::Source(source) => Some(source),
            Medium::File { .. } | Medium::Memory(_) => None,
        }
    }
}

/// Most requests in flight to one source.
const SOURCE_DEPTH: u32 = 64;
