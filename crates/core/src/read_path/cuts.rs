//! Reads of files that are cut while they are under way.
//!
//! In:    files that are being cut, and that have been.
//! Out:   reads that end at the new end instead of with a fault.
//! Never: a fault that has another reason, taken for a cut.
//!
//! ```text
//!   read     |----------------------|                 sent before the file is cut
//!   device   |=====|=====|==                          what it still has when the read gets there
//!                          ^ the read ends here: the file had this length while it ran
//! ```

use super::ReadPath;
use crate::ids::FileId;
use crate::page_in::read::PageRead;
use crate::units::ByteCount;

impl ReadPath {
    /// A driver is about to give a file this length, which is less than it has: reads that begin
    /// or end before it reports that may find either length.
    pub(crate) fn begin_cut(&mut self, file: FileId, len: ByteCount) {
        assert!(
            self.reads.cuts.iter().all(|it| it.0 != file),
            "one driver at a time cuts {file:?}"
        );
        self.reads.cuts.push((file, len));
        self.note_cut(file, len);
    }

    /// The driver has cut the file, or has not. If none does: nothing.
    pub(crate) fn end_cut(&mut self, file: FileId) {
        self.reads.cuts.retain(|(other, _)| *other != file);
    }

    /// The file has this length now, which is less than it had. Reads that wait for pages end
    /// there, also if it has grown again when the pages come: else a read could find the zeros
    /// that it then got, and not what was written before.
    pub(crate) fn was_cut(&mut self, file: FileId, len: ByteCount) {
        self.note_cut(file, len);
        let waits = |read: &&mut PageRead| read.file == file && read.frames.outstanding > 0;
        for read in self.reads.reads.values_mut().filter(waits) {
            read.len = read.len.min(len.saturating_sub(read.pos));
        }
    }

    /// The file may have this length: for the reads that are under way.
    fn note_cut(&mut self, file: FileId, len: ByteCount) {
        for read in self.reads.reads.values_mut().filter(|read| read.file == file) {
            read.least_len = read.least_len.min(len);
        }
    }
}
