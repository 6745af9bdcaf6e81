//! Log of the reads of a run through the cache, in start order, as input to the lower bounds. Holds
//! at most [`LoggedRead::MAX_READS`].

use std::ops::Range;

use foreread_core::units::{ByteCount, Nanos, PAGE_SIZE, SECTOR_SIZE, Sector};

/// A read of a process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LoggedRead {
    /// Start time.
    pub at: Nanos,
    /// Device of the file.
    pub device: u32,
    /// Pages of the device.
    pub pages: Range<u64>,
}

impl LoggedRead {
    /// Largest number of reads, which takes 512 MiB; a run with more has no log.
    pub const MAX_READS: usize = 1 << 24;
}

/// All reads so far.
#[derive(Debug)]
pub(crate) struct ReadLog {
    reads: Vec<LoggedRead>,
    most: usize,
    is_full: bool,
}

impl ReadLog {
    /// Creates a log with this limit.
    pub(crate) fn new(most: usize) -> Self {
        Self { reads: Vec::new(), most, is_full: false }
    }

    /// Records a read of a file that begins at `start` on its device.
    pub(crate) fn add(
        &mut self,
        at: Nanos,
        (device, start): (u32, Sector),
        pos: ByteCount,
        len: ByteCount,
    ) {
        // A file that begins within a device page has shifted page boundaries; the number of pages
        // is the same.
        let base = start.0 * SECTOR_SIZE / PAGE_SIZE;
        let pages = base + pos.0 / PAGE_SIZE..base + (pos.0 + len.0).div_ceil(PAGE_SIZE);
        if pages.is_empty() || self.is_full {
            return;
        }
        if self.reads.len() == self.most {
            self.is_full = true;
            self.reads = Vec::new();
            return;
        }
        self.reads.push(LoggedRead { at, device, pages });
    }

    pub(crate) fn into_reads(self) -> Vec<LoggedRead> {
        self.reads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_too_long_has_no_reads() {
        let log = |reads: u64| {
            let mut log = ReadLog::new(2);
            for at in 0..reads {
                log.add(Nanos(at), (0, Sector(8)), ByteCount(at * 4096), ByteCount(4096));
            }
            log.into_reads()
        };
        let of_two: Vec<_> = log(2).into_iter().map(|read| read.pages).collect();
        assert_eq!(of_two, [1..2, 2..3]);
        assert!(log(3).is_empty() && log(9).is_empty(), "a part would be another bound");
    }
}
