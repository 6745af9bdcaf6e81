//! Reads of files that are truncated while the read is in flight: such a read ends at the new end
//! of the file instead of failing. All other faults are still reported.
//!
//! ```text
//!   read     |----------------------|                 sent before the file is cut
//!   device   |=====|=====|==                          left of the file when the read reaches it
//!                          ^ the read ends here: the file had this length while it ran
//! ```

use super::ReadPath;
use crate::ids::FileId;
use crate::page_in::read::PageRead;
use crate::units::ByteCount;

impl ReadPath {
    /// Records that a driver is about to cut a file to this length. Reads that begin or end before
    /// it reports the result may find either length.
    pub(crate) fn begin_cut(&mut self, file: FileId, len: ByteCount) {
        assert!(
            self.reads.cuts.iter().all(|it| it.0 != file),
            "one driver at a time cuts {file:?}"
        );
        self.reads.cuts.push((file, len));
        self.note_cut(file, len);
    }

    /// Records that the driver has cut the file, or failed to. Does nothing if no cut is in
    /// progress.
    pub(crate) fn end_cut(&mut self, file: FileId) {
        self.reads.cuts.retain(|(other, _)| *other != file);
    }

    /// Records that the file was cut to this length. Reads that wait for pages end there, even if
    /// the file has grown again before the pages arrive: otherwise a read could return the zeros of
    /// the new length instead of the bytes written before the cut.
    pub(crate) fn was_cut(&mut self, file: FileId, len: ByteCount) {
        self.note_cut(file, len);
        let waits = |read: &&mut PageRead| read.file == file && read.frames.outstanding > 0;
        for read in self.reads.reads.values_mut().filter(waits) {
            read.len = read.len.min(len.saturating_sub(read.pos));
        }
    }

    /// Records a possible length of the file in all its reads.
    fn note_cut(&mut self, file: FileId, len: ByteCount) {
        for read in self.reads.reads.values_mut().filter(|read| read.file == file) {
            read.least_len = read.least_len.min(len);
        }
    }
}
