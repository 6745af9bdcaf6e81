//! First touch: memory for frames that were never used, before they are.
//!
//! In:    how many frames were ever used.
//! Out:   jobs of the blocking pool that have the system give memory to the next few MiB.
//! Never: memory for more than twice the frames that were used, or for more than 10 MiB beyond
//!        them. A job for reads that stay below 1 MiB.
//!
//! ```text
//!   frames   |=== used ===|--- has memory ---|              never touched              |
//!                         |<-- as many, at -->|
//!                              most 8 MiB
//! ```
//!
//! Why: the kernel zeroes memory when it is first touched, 2 MiB at a time where it has huge pages.
//! A reader that touches it waits for that with its device idle, at each step of its stream until
//! the whole cache has been filled once.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::blocking_pool::{BlockingPool, BlocksOn};
use crate::pool::{PAGE, Pool};

/// Which frames have memory, as far as the driver knows.
#[derive(Debug)]
pub(crate) struct FirstTouch {
    pool: Arc<Pool>,
    threads: Arc<BlockingPool>,
    frames: u32,
    /// The frames below have memory, or will have with the job that runs.
    touched: u32,
    state: Arc<AtomicU8>,
}

/// Has the system give memory to some frames.
#[derive(Debug)]
pub(crate) struct TouchJob {
    pool: Arc<Pool>,
    threads: Arc<BlockingPool>,
    frames: Range<u32>,
    state: Arc<AtomicU8>,
}

impl FirstTouch {
    pub(crate) fn new(pool: Arc<Pool>, frames: u32) -> Self {
        let (threads, state) = (Arc::default(), Arc::new(AtomicU8::new(IDLE)));
        let touched = if pool.has_memory() { frames } else { 0 };
        Self { pool, threads, frames, touched, state }
    }

    /// The job that is to be started when so many frames were ever used; one at a time.
    #[inline]
    pub(crate) fn due(&mut self, used: u32) -> Option<TouchJob> {
        debug_assert!(used <= self.frames, "{used} of {} frames are used", self.frames);
        let want = used + used.min(AHEAD_MAX);
        let end = if want < self.frames { want - want % STEP } else { self.frames };
        let start = self.touched.max(used);
        if end <= start || used < USED_MIN || self.state.load(Ordering::Acquire) != IDLE {
            return None;
        }
        self.touched = end;
        self.state.store(BUSY, Ordering::Relaxed);
        let (pool, threads) = (Arc::clone(&self.pool), Arc::clone(&self.threads));
        Some(TouchJob { pool, threads, frames: start..end, state: Arc::clone(&self.state) })
    }
}

impl Drop for FirstTouch {
    fn drop(&mut self) {
        // In a forked child the thread is not there, and its lock may be held forever.
        if self.pool.is_of_this_process() {
            self.threads.close();
        }
    }
}

impl TouchJob {
    /// Has it done by a thread that waits for nothing else.
    pub(crate) fn start(self) {
        let threads = Arc::clone(&self.threads);
        threads.run(BlocksOn::Memory, Box::new(move || self.run()));
    }

    fn run(self) {
        let result = self.pool.populate(self.frames);
        // What the system refuses once is left to the readers from then on.
        let state = if result.is_ok() { IDLE } else { REFUSED };
        self.state.store(state, Ordering::Release);
    }
}

const IDLE: u8 = 0;
const BUSY: u8 = 1;
const REFUSED: u8 = 2;

const FRAMES_PER_MIB: u32 = 256;
const _: () = assert!(FRAMES_PER_MIB as usize * PAGE == 1 << 20);

/// Memory comes in steps of a huge page.
const STEP: u32 = 2 * FRAMES_PER_MIB;

/// What a reader at 1 GB/s fills in 8 ms, many times what it takes to zero it.
const AHEAD_MAX: u32 = 8 * FRAMES_PER_MIB;

/// A program that reads a header needs no thread for it.
const USED_MIN: u32 = FRAMES_PER_MIB;
