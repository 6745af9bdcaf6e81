//! One run of the flood: the chain alone, the writers alone, and both.
//!
//! If a thread fails, all others stop.
//!
//! ```text
//!   chain     C C C                      C       C       C       C
//!   writers           |~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~|
//!             alone   warm up |  alone  | during | after | during | after ..
//! ```
//!
//! Each chain starts when the writers have had the device to themselves for a while, like a click
//! of a user during a copy: the chain also waits for writes that the device has already accepted.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::super::pattern::PAGE;
use super::super::random::mix;
use super::super::reader::ColdReader;
use super::super::run::AlignedBuffer;
use super::handle::FloodWriter;
use crate::clock::{clock, sleep_until};

/// Result of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct FloodRun {
    /// Mean chain time without the flood and with it.
    pub(super) chain_alone: Duration,
    pub(super) chain: Duration,
    /// Bytes per second.
    pub(super) written_alone: f64,
    pub(super) written_during: f64,
    pub(super) written_after: f64,
    /// Longest of the writes that completed during the chains.
    pub(super) longest_write: Duration,
}

/// Runs the flood for at least `time` and one chain.
pub(super) fn run(
    (reader, writer): (ColdReader, FloodWriter),
    len: u64,
    time: Duration,
    seed: u64,
) -> io::Result<FloodRun> {
    let mut chain = ReadChain::new(reader, len, seed);
    let mut alone = Duration::ZERO;
    for _ in 0..CHAINS_ALONE {
        alone += chain.run()?;
    }
    let writers = FloodWriters {
        writer,
        start: len / 4 / WRITE * WRITE,
        places: (len - len / 4) / WRITE,
        is_over: AtomicBool::new(false),
        written: AtomicU64::new(0),
        longest_ns: AtomicU64::new(0),
        failed: Mutex::new(None),
    };
    let outcome = thread::scope(|scope| {
        let _end = EndOf(&writers.is_over);
        for number in 0..WRITERS {
            let (writers, seed) = (&writers, mix(seed << 32 | number));
            let work = move || writers.work(seed);
            thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)?;
        }
        writers.beside(&mut chain, time)
    });
    if let Some(error) =
        writers.failed.into_inner().expect("no writer panics while it notes its error")
    {
        return Err(error);
    }
    Ok(FloodRun { chain_alone: alone / CHAINS_ALONE, ..outcome? })
}

/// Chain of dependent reads: each page holds the position of the next.
struct ReadChain {
    reader: ColdReader,
    buffer: AlignedBuffer,
    /// Pages of the first quarter of the target.
    pages: u64,
    seed: u64,
    reads: u64,
}

impl ReadChain {
    fn new(reader: ColdReader, len: u64, seed: u64) -> Self {
        let buffer = AlignedBuffer::new(PAGE);
        Self { reader, buffer, pages: len / 4 / PAGE, seed: mix(seed), reads: 0 }
    }

    /// Reads one chain.
    fn run(&mut self) -> io::Result<Duration> {
        let began = clock();
        let mut found = 0;
        for _ in 0..CHAIN {
            let offset = self.place(found) * PAGE;
            self.reader.read(self.buffer.bytes(), offset)?;
            let word = self.buffer.bytes()[..8].try_into().expect("eight bytes are sliced");
            found = u64::from_le_bytes(word);
        }
        Ok(clock().duration_since(began))
    }

    /// Returns a page not read before: each read has its own part of the quarter, and the previous
    /// read chooses the page in it. Distances between successive parts differ, so that no stream is
    /// detected.
    fn place(&mut self, found: u64) -> u64 {
        let step = self.reads.wrapping_mul(self.reads + 1) / 2;
        let part = step.wrapping_mul(FAR).wrapping_add(self.seed) % PARTS;
        self.reads += 1;
        let pages = self.pages / PARTS;
        part * pages + mix(self.seed ^ found ^ self.reads) % pages
    }
}

/// Threads that write at random offsets.
struct FloodWriters {
    writer: FloodWriter,
    start: u64,
    places: u64,
    is_over: AtomicBool,
    /// Bytes written so far.
    written: AtomicU64,
    longest_ns: AtomicU64,
    failed: Mutex<Option<io::Error>>,
}

impl FloodWriters {
    fn work(&self, seed: u64) {
        let mut buffer = AlignedBuffer::new(WRITE);
        for (number, word) in (0..).zip(buffer.bytes().chunks_exact_mut(8)) {
            word.copy_from_slice(&mix(seed ^ number).to_le_bytes());
        }
        let mut turn = seed;
        while !self.is_over.load(Ordering::Relaxed) {
            turn = mix(turn);
            buffer.bytes()[..8].copy_from_slice(&turn.to_le_bytes());
            let began = clock();
            let place = self.start + turn % self.places * WRITE;
            if let Err(error) = self.writer.write(buffer.bytes(), place) {
                *self.failed.lock().expect("no writer panics while it notes its error") =
                    Some(error);
                self.is_over.store(true, Ordering::Relaxed);
                return;
            }
            let took = clock().duration_since(began).as_nanos();
            self.longest_ns.fetch_max(u64::try_from(took).unwrap_or(u64::MAX), Ordering::Relaxed);
            self.written.fetch_add(WRITE, Ordering::Relaxed);
        }
    }

    /// Runs the writers alone, then chains next to them.
    fn beside(&self, chain: &mut ReadChain, time: Duration) -> io::Result<FloodRun> {
        let warm = clock() + WARM_UP;
        while self.written.load(Ordering::Relaxed) < WRITERS * WRITE || clock() < warm {
            if self.is_over.load(Ordering::Relaxed) {
                return Err(io::Error::other("the writers have ended"));
            }
            sleep_until(clock() + LOOK);
        }
        let written_alone = self.during(ALONE).rate();
        let (mut during, mut after) = (WrittenPart::default(), WrittenPart::default());
        let mut chains = 0;
        self.longest_ns.store(0, Ordering::Relaxed);
        let end = clock() + time;
        while chains == 0 || clock() < end {
            let began = self.now();
            let took = chain.run()?;
            during.add(self.since(began));
            chains += 1;
            debug_assert!(took <= during.time);
            sleep_until(clock() + SETTLE);
            after.add(self.during(AFTER));
        }
        Ok(FloodRun {
            chain_alone: Duration::ZERO,
            chain: during.time / chains,
            written_alone,
            written_during: during.rate(),
            written_after: after.rate(),
            longest_write: Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed)),
        })
    }

    fn during(&self, time: Duration) -> WrittenPart {
        let began = self.now();
        sleep_until(began.0 + time);
        self.since(began)
    }

    fn now(&self) -> (Instant, u64) {
        (clock(), self.written.load(Ordering::Relaxed))
    }

    fn since(&self, (began, written): (Instant, u64)) -> WrittenPart {
        let (now, written_now) = self.now();
        WrittenPart { time: now.duration_since(began), bytes: written_now - written }
    }
}

/// Bytes written in a time.
#[derive(Clone, Copy, Debug, Default)]
struct WrittenPart {
    time: Duration,
    bytes: u64,
}

impl WrittenPart {
    fn add(&mut self, other: Self) {
        self.time += other.time;
        self.bytes += other.bytes;
    }

    fn rate(self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64()
    }
}

/// Stops the flood when dropped.
struct EndOf<'a>(&'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads per chain: a path of some directories and an index of some levels, each with its inode.
pub(super) const CHAIN: u32 = 20;

/// Chains without a flood.
const CHAINS_ALONE: u32 = 3;

/// Writer threads, as in the published runs: more than a disk queues, fewer than the kernel queues.
const WRITERS: u64 = 64;
const WRITE: u64 = 64 << 10;

/// Stack size; a thread only writes.
const STACK: usize = 128 << 10;

/// Warm-up time before anything counts.
const WARM_UP: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_millis(5);

/// Time of the writers alone.
const ALONE: Duration = Duration::from_millis(1000);

/// Pause after a chain, in which a scheduler releases the writes it held back for a further read
/// (foreread's holds them for 50 ms).
const SETTLE: Duration = Duration::from_millis(100);
const AFTER: Duration = Duration::from_millis(500);

/// Parts of the chain's quarter; more than the reads of a run.
const PARTS: u64 = 4096;

/// Step between parts: odd, so that all are visited before one repeats, and large.
const FAR: u64 = 1367;
