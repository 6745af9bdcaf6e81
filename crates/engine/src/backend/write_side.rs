//! What a file is written through: descriptors that may write, which a file that is open for
//! reading gets when it is opened for writing, too.
//!
//! In:    the descriptors of an open for writing.
//! Out:   the descriptor for each write.
//! Never: a descriptor that is exchanged while a request has its number.
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
    /// None if the descriptor that reads may write.
    pub(super) file: Option<File>,
    /// Another descriptor of the same file, for an end that is not the end of a block.
    pub(super) tail: Option<File>,
    /// Another one for flushes, if buffered: the kernel reports a failed write-back to each
    /// descriptor once, so no other call may use up the report to this one.
    pub(super) flushes: Option<File>,
    /// Held as long as anything is written.
    pub(super) _claim: Option<Arc<Claim>>,
}

impl Backend {
    pub(crate) fn is_writable(&self) -> bool {
        self.write_side.get().is_some()
    }

    /// From now on it is written through what `other`, of the same file, was opened with.
    pub(crate) fn become_writable(&self, other: Self) {
        let Self { medium, write_side, .. } = other;
        let mut side = write_side.into_inner().expect("it was opened for writing");
        if let Medium::File { file } = medium {
            side.file.get_or_insert(file);
        }
        // If two threads did this at a time, the first one's descriptors are as good.
        let _ = self.write_side.set(side);
    }

    /// Claims it for an engine that is going to write it. None if another engine of this process
    /// does.
    pub(crate) fn claim_for(&self, engine: u64) -> Option<Arc<WriterClaim>> {
        claim_for(self.identity, engine)
    }

    /// What is written through; None if there is no descriptor.
    pub(super) fn file_for_writes(&self) -> Option<&File> {
        let Medium::File { file } = &self.medium else { return None };
        let of_its_own = self.write_side.get().and_then(|side| side.file.as_ref());
        Some(of_its_own.unwrap_or(file))
    }

    pub(super) fn tail(&self) -> Option<&File> {
        self.write_side.get()?.tail.as_ref()
    }
}
