//! A run of blocks: the unit in which a file's map is read.
//!
//! In:    what an extent or a block map names.
//! Out:   [`BlockRun`].
//! Never: a run that is partly a hole.

/// Blocks of a file that lie one after another on the device, or that are all zeros.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BlockRun {
    /// The first one's number in the file.
    pub first: u64,
    /// How many.
    pub blocks: u64,
    /// The first one's number on the device. None: zeros, a hole or unwritten.
    pub at: Option<u64>,
}

impl BlockRun {
    /// One past the last block's number in the file.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.first + self.blocks
    }

    /// Whether `next` goes on where this ends, in the file and on the device.
    pub(crate) fn goes_on_with(&self, next: &Self) -> bool {
        let on_device = match (self.at, next.at) {
            (Some(at), Some(next)) => at + self.blocks == next,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        self.end() == next.first && on_device
    }
}
