//! A source as a backend.
//!
//! In:    a source and its length.
//! Out:   a backend whose requests the driver passes on to the source.
//! Never: a descriptor.

use foreread_core::units::ByteCount;

use super::{Backend, FileIdentity, Medium};
use crate::source::OpenSource;

impl Backend {
    /// A source of so many bytes.
    pub(crate) fn of_source(source: OpenSource, len: ByteCount) -> Self {
        let identity = FileIdentity::Source(source.address());
        let mut backend = Self::new(Medium::Source(source), identity, len, None, None);
        backend.geometry.depth = SOURCE_DEPTH;
        backend
    }

    /// The source that it is, if it is one.
    pub(crate) fn source(&self) -> Option<&OpenSource> {
        match &self.medium {
            Medium::Source(source) => Some(source),
            Medium::File { .. } | Medium::Memory(_) => None,
        }
    }
}

/// How many requests one source is given at once.
const SOURCE_DEPTH: u32 = 64;
