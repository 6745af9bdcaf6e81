//! Populates the memory of frames shortly before their first use, on the blocking pool. At most as
//! many frames as have been used, and at most 8 MiB, are populated ahead. Nothing is populated
//! until 1 MiB has been used.
//!
//! ```text
//!   frames   |=== used ===|--- populated ---|              never touched              |
//!                         |<- as many, at ->|
//!                             most 8 MiB
//! ```
//!
//! The kernel zeroes memory at its first touch, 2 MiB at a time with huge pages. Without this, a
//! reader would wait for that, its device idle, at each step of its stream until the whole cache
//! has been filled once.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::blocking_pool::{BlockingPool, BlocksOn};
use crate::pool::{PAGE, Pool};

/// The driver's view of the populated frames.
#[derive(Debug)]
pub(crate) struct FirstTouch {
    pool: Arc<Pool>,
    threads: Arc<BlockingPool>,
    frames: u32,
    /// Frames below this one are populated, or will be by the running job.
    touched: u32,
    state: Arc<AtomicU8>,
}

/// Job that populates a range of frames.
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

    /// Returns the next job to start once `used` frames have ever been used. Only one job runs at a
    /// time.
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
        // A forked child does not have the thread, and the lock may stay held forever.
        if self.pool.is_of_this_process() {
            self.threads.close();
        }
    }
}

impl TouchJob {
    /// Starts the job on a thread of its pool.
    pub(crate) fn start(self) {
        let threads = Arc::clone(&self.threads);
        threads.run(BlocksOn::Memory, Box::new(move || self.run()));
    }

    fn run(self) {
        let result = self.pool.populate(self.frames);
        // After the first failure, readers touch the frames themselves.
        let state = if result.is_ok() { IDLE } else { REFUSED };
        self.state.store(state, Ordering::Release);
    }
}

const IDLE: u8 = 0;
const BUSY: u8 = 1;
const REFUSED: u8 = 2;

const FRAMES_PER_MIB: u32 = 256;
const _: () = assert!(FRAMES_PER_MIB as usize * PAGE == 1 << 20);

/// Frames are populated in steps of a huge page.
const STEP: u32 = 2 * FRAMES_PER_MIB;

/// Amount that a reader at 1 GB/s fills in 8 ms, many times as long as zeroing it takes.
const AHEAD_MAX: u32 = 8 * FRAMES_PER_MIB;

/// A program that reads only a header does not need the thread.
const USED_MIN: u32 = FRAMES_PER_MIB;
