//! A run of blocks, the unit in which a file's map is read. It is either fully mapped or fully a
//! hole.

/// Consecutive blocks of a file that are contiguous on the device, or that are all zeros.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BlockRun {
    /// Number of the first block in the file.
    pub first: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of the first block on the device; None for zeros: a hole or unwritten.
    pub at: Option<u64>,
}

impl BlockRun {
    /// Returns the file's block number after the run.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.first + self.blocks
    }

    /// Returns whether `next` continues this run, in the file and on the device.
    pub(crate) fn goes_on_with(&self, next: &Self) -> bool {
        let on_device = match (self.at, next.at) {
            (Some(at), Some(next)) => at + self.blocks == next,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        self.end() == next.first && on_device
    }
}
