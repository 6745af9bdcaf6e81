//! Plain memory as large as a hot set: the lower bound of the cost of a cache hit.
//!
//! Each load depends on the previous one, so that latency is measured instead of memory
//! parallelism.

use std::io;
use std::sync::Arc;

use memmap2::{Advice, MmapMut, MmapOptions};

/// One thread's view of it.
pub(crate) struct BareMemory {
    memory: Arc<MmapMut>,
    /// Result of the last load, always 0; the next address depends on it.
    seen: u64,
}

impl BareMemory {
    /// Allocates the largest hot set plus one read for this many threads, in huge pages if
    /// possible, like foreread's frames.
    pub(crate) fn for_threads(threads: u32) -> io::Result<Vec<Self>> {
        let mut memory = MmapOptions::new().len(SET + READ_MAX).map_anon()?;
        // Without huge pages a copy costs more, as it then does in foreread.
        let _ = memory.advise(Advice::HugePage);
        memory.fill(0);
        let memory = Arc::new(memory);
        Ok((0..threads).map(|_| Self { memory: Arc::clone(&memory), seen: 0 }).collect())
    }

    #[inline]
    pub(crate) fn copy(&self, to: &mut [u8], offset: u64) {
        let start = place(offset);
        to.copy_from_slice(&self.memory[start..start + to.len()]);
    }

    #[inline]
    pub(crate) fn look(&mut self, offset: u64) {
        self.seen = self.memory[place(offset + self.seen)].into();
    }
}

/// Returns the offset in the buffer that stands for an offset of the target.
#[inline]
fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("offsets of a 64-bit machine") % SET
}

/// Size of the buffer, that of the largest hot set.
const SET: usize = 256 << 20;

/// Largest read of any pattern.
const READ_MAX: usize = 1 << 20;
