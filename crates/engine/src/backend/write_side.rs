//! Descriptors for writing. A file open for reading gets them when it is also opened for writing. A
//! descriptor is never replaced while a request uses its number.
//!
//! ```text
//!   opened for reading, then for writing      reads:  the first one's descriptor
//!                                             writes: the second one's
//!   opened for writing                        both:   the same
//! ```

use std::fs::File;
use std::sync::Arc;

use super::claim::Claim;
use super::writers::{WriterClaim, claim_for};
use super::{Backend, Medium};

#[derive(Debug)]
pub(super) struct WriteSide {
    /// `None` if the descriptor for reads can also write.
    pub(super) file: Option<File>,
    /// Second descriptor, for an end of the file that is not block-aligned.
    pub(super) tail: Option<File>,
    /// Descriptor for the flushes of a buffered file. The kernel reports a failed write-back once
    /// per descriptor, and no other call may consume that report.
    pub(super) flushes: Option<File>,
    /// Held while the file is open for writing.
    pub(super) _claim: Option<Arc<Claim>>,
}

impl Backend {
    pub(crate) fn is_writable(&self) -> bool {
        self.write_side.get().is_some()
    }

    /// Makes the file writable with the descriptors that `other`, of the same file, was opened
    /// with.
    pub(crate) fn become_writable(&self, other: Self) {
        let Self { medium, write_side, .. } = other;
        let mut side = write_side.into_inner().expect("it was opened for writing");
        if let Medium::File { file } = medium {
            side.file.get_or_insert(file);
        }
        // If two threads race here, either's descriptors will do.
        let _ = self.write_side.set(side);
    }

    /// Claims the file for an engine about to write it. Returns `None` if another engine of this
    /// process has claimed it.
    pub(crate) fn claim_for(&self, engine: u64) -> Option<Arc<WriterClaim>> {
        claim_for(self.identity, engine)
    }

    /// Returns the descriptor for writes; `None` if there is no descriptor.
    pub(super) fn file_for_writes(&self) -> Option<&File> {
        let Medium::File { file } = &self.medium else { return None };
        let of_its_own = self.write_side.get().and_then(|side| side.file.as_ref());
        Some(of_its_own.unwrap_or(file))
    }

    pub(super) fn tail(&self) -> Option<&File> {
        self.write_side.get()?.tail.as_ref()
    }
}
