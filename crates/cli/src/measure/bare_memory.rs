//! Memory of this process, as large as a hot set: what a cached read would cost without a cache.
//!
//! In:    offsets, as the other access methods get them.
//! Out:   copies of bytes there; or one look at a byte.
//! Never: a look that begins before the last one has ended: it would show how many the processor
//!        has under way, and not what one costs.

use std::io;
use std::sync::Arc;

use memmap2::{Advice, MmapMut, MmapOptions};

/// One thread's view of it.
pub(crate) struct BareMemory {
    memory: Arc<MmapMut>,
    /// What the last look saw, which is 0: the next one needs it to know where to look.
    seen: u64,
}

impl BareMemory {
    /// As much as the largest hot set and one read more, for so many threads. In huge pages where
    /// there are some, as foreread's frames are.
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

/// Where in the memory a byte of the target is looked for.
#[inline]
fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("offsets of a 64-bit machine") % SET
}

/// As large as the largest hot set.
const SET: usize = 256 << 20;

/// As large as the largest read of a pattern.
const READ_MAX: usize = 1 << 20;
