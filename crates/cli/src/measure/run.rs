//! One run of a pattern by one or several threads, which all start together.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::pattern::{AccessPattern, PAGE, PatternArea};
use super::reader::ColdReader;
use super::testbed::{ColdReaders, DeviceReads};
use crate::clock::{clock, processor_time};
use crate::store::{StoreAsked, asked_so_far};

/// Reads of a run.
#[derive(Clone, Copy, Debug)]
pub struct BenchWork {
    pub pattern: AccessPattern,
    /// Size of the target in bytes.
    pub len: u64,
    /// Offset of the first read; see [`PatternArea::shift`].
    pub shift: u64,
    pub hot_set: Option<u64>,
    pub threads: u32,
    pub seed: u64,
    pub limit: RunLimit,
}

/// End of a run, by whichever limit is reached first.
#[derive(Clone, Copy, Debug)]
pub struct RunLimit {
    /// Limit over all threads.
    pub reads: u64,
    pub time: Duration,
    /// Reads between two checks of the clock.
    pub look: u64,
}

/// Result of one run.
#[derive(Clone, Copy, Debug)]
pub struct TimedRun {
    pub reads: u64,
    /// Bytes per read.
    pub block: u64,
    pub threads: u32,
    pub elapsed: Duration,
    /// Processor time of the whole process during the run.
    pub processor: Duration,
    pub asked: DeviceReads,
    /// Requests to the store during the run; None for a file.
    pub store: Option<StoreAsked>,
}

impl BenchWork {
    /// Returns the area that thread number `thread` reads.
    ///
    /// ```text
    ///   cold     | thread 0 | thread 1 | thread 2 |     each its own part
    ///   shared   | all                            |     they take turns
    ///   hot      | all |                                each its own random reads of one set
    /// ```
    pub(crate) fn area(&self, thread: u32) -> PatternArea {
        let Self { shift, hot_set, .. } = *self;
        let is_one = self.pattern.is_shared() || self.pattern.hot_set().is_some();
        let parts = if is_one { 1 } else { u64::from(self.threads) };
        let len = self.len / parts / PAGE * PAGE;
        let start = if is_one { 0 } else { u64::from(thread) * len };
        PatternArea { start, len, shift, hot_set }
    }

    /// Returns the number of reads that fit the target.
    pub fn room(&self) -> u64 {
        let areas = if self.pattern.is_shared() { 1 } else { u64::from(self.threads) };
        self.pattern.room(&self.area(0)).saturating_mul(areas)
    }

    /// Returns the number of readers needed.
    pub fn readers(&self) -> u32 {
        self.threads * self.pattern.handles()
    }

    /// Runs the pattern; each thread uses its own readers.
    pub fn run(&self, opened: &mut ColdReaders<'_>) -> io::Result<TimedRun> {
        assert_eq!(opened.readers.len(), self.readers() as usize);
        if let Some(set) = self.pattern.hot_set() {
            self.warm(&mut opened.readers[0], self.hot_set.unwrap_or(set))?;
        }
        let (before, store_before) = (opened.meter.asked()?, asked_so_far());
        let processor = processor_time();
        let (reads, elapsed) = if self.threads == 1 {
            // A single reader uses this thread, which is already warm.
            let started = clock();
            let reads = self.read(0, &mut opened.readers, &AtomicU64::new(0), started)?;
            (reads, clock().duration_since(started))
        } else {
            self.run_threads(&mut opened.readers)?
        };
        let processor = processor_time().saturating_sub(processor);
        let asked = since(before, opened.meter.asked()?);
        let store = asked_so_far().zip(store_before).map(|(now, before)| now.since(before));
        let Self { pattern, threads, .. } = *self;
        let block = pattern.block();
        Ok(TimedRun { reads, block, threads, elapsed, processor, asked, store })
    }

    /// Reads the hot set once, to cache it.
    fn warm(&self, reader: &mut ColdReader, set: u64) -> io::Result<()> {
        let mut buffer = AlignedBuffer::new(PAGE);
        let start = self.area(0).start + self.shift;
        for page in 0..set / PAGE {
            reader.read(buffer.bytes(), start + page * PAGE)?;
        }
        Ok(())
    }

    /// Returns the reads of all threads, and the time from the first start to the last end.
    fn run_threads(&self, readers: &mut [ColdReader]) -> io::Result<(u64, Duration)> {
        let shared = AtomicU64::new(0);
        let ready = Barrier::new(self.threads as usize);
        let threads: Vec<io::Result<(u64, Instant, Instant)>> = std::thread::scope(|scope| {
            let spawned: Vec<_> = (0..)
                .zip(readers.chunks_mut(self.pattern.handles() as usize))
                .map(|(thread, readers)| {
                    let (ready, shared) = (&ready, &shared);
                    scope.spawn(move || {
                        ready.wait();
                        let started = clock();
                        let reads = self.read(thread, readers, shared, started)?;
                        Ok((reads, started, clock()))
                    })
                })
                .collect();
            let joined = spawned.into_iter().map(|thread| thread.join());
            joined.map(|result| result.expect("readers return errors and do not panic")).collect()
        });
        let threads = threads.into_iter().collect::<io::Result<Vec<_>>>()?;
        let reads = threads.iter().map(|(reads, ..)| reads).sum();
        let started = threads.iter().map(|(_, started, _)| *started).min();
        let ended = threads.iter().map(|(.., ended)| *ended).max();
        let elapsed = started.zip(ended).map(|(started, ended)| ended.duration_since(started));
        Ok((reads, elapsed.expect("run_threads is called with two threads at least")))
    }

    /// Performs the reads of one thread and returns their number.
    fn read(
        &self,
        thread: u32,
        readers: &mut [ColdReader],
        shared: &AtomicU64,
        started: Instant,
    ) -> io::Result<u64> {
        let pattern = self.pattern;
        let area = self.area(thread);
        let room = pattern.room(&area);
        let mut buffer = AlignedBuffer::new(pattern.block());
        let buffer = buffer.bytes();
        let (is_shared, is_pinned) = (pattern.is_shared(), pattern.is_pinned());
        let limit = if is_shared {
            self.limit.reads.min(room)
        } else {
            self.limit.reads.div_ceil(u64::from(self.threads)).min(room)
        };
        let seed = self.seed ^ u64::from(thread) << 48;
        let mut reads: u64 = 0;
        let mut turn = (0..readers.len()).cycle();
        loop {
            if reads.is_multiple_of(self.limit.look)
                && clock().duration_since(started) >= self.limit.time
            {
                return Ok(reads);
            }
            let i = if is_shared { shared.fetch_add(1, Ordering::Relaxed) } else { reads };
            if i >= limit {
                return Ok(reads);
            }
            let offset = pattern.offset(&area, i, seed);
            // Streams alternate in the order of their handles.
            let reader = &mut readers
                [turn.next().expect("each thread has a reader, and the cycle never ends")];
            if is_pinned {
                reader.pin(offset)?;
            } else {
                reader.read(buffer, offset)?;
            }
            reads += 1;
        }
    }
}

impl TimedRun {
    pub fn bytes_wanted(&self) -> u64 {
        self.reads * self.block
    }

    pub fn mb_per_s(&self) -> f64 {
        self.bytes_wanted() as f64 / self.elapsed.as_secs_f64() / 1e6
    }

    /// Returns processor seconds per 10^9 bytes read.
    pub fn cpu_s_per_gb(&self) -> f64 {
        self.processor.as_secs_f64() * 1e9 / self.bytes_wanted().max(1) as f64
    }

    /// Returns the mean time of a read for its thread.
    pub fn ns_per_read(&self) -> f64 {
        let per_thread = self.reads.max(1) as f64 / f64::from(self.threads);
        self.elapsed.as_nanos() as f64 / per_thread
    }
}

/// Buffer aligned for `O_DIRECT`.
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    pub fn new(len: u64) -> Self {
        let len = usize::try_from(len).expect("a block of a pattern is a megabyte at most");
        let memory = vec![0; len + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, len }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

fn since(before: DeviceReads, now: DeviceReads) -> DeviceReads {
    let minus = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
    DeviceReads {
        reads: minus(now.reads, before.reads),
        bytes: minus(now.bytes, before.bytes),
        evicted_before_use: minus(now.evicted_before_use, before.evicted_before_use),
    }
}

/// One page; no device that foreread reads directly needs more.
const ALIGNMENT: usize = 4096;
