//! The workloads.
//!
//! In:    readers, and a callback for the moment before the clock starts.
//! Out:   bytes, time, the latency of each read.
//! Never: different offsets in two runs.

use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

use crate::cpu;
use crate::reader::Reader;

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    /// Latency of each read, in order within a thread.
    pub(crate) latencies: Vec<Duration>,
    /// Largest delay of a read behind its pace.
    pub(crate) late: Option<Duration>,
    pub(crate) cpu: Duration,
}

/// A workload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Work {
    /// Alternating positions, and the length of a read.
    Sequential(u64, usize),
    /// A whole object of 1 GiB.
    Whole,
    /// Number of random reads, and of threads.
    Random(usize, usize),
    Paced,
    Again,
}

impl Work {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "seq128k" => Self::Sequential(1, 128 << 10),
            "seq4m" => Self::Sequential(1, 4 << 20),
            "whole128k" => Self::Whole,
            "inter2" => Self::Sequential(2, 128 << 10),
            "inter8" => Self::Sequential(8, 128 << 10),
            "rand64k" => Self::Random(150, 1),
            "rand64k-16" => Self::Random(4000, 16),
            "paced32" => Self::Paced,
            "reread" => Self::Again,
            _ => return None,
        })
    }

    /// Returns the number of files that it reads.
    pub(crate) fn files(self) -> usize {
        if self == Self::Paced { STREAMS } else { 1 }
    }

    /// Runs it; `ready` is called before the clock starts.
    pub(crate) fn run(
        self,
        readers: &mut [Box<dyn Reader>],
        ready: impl Fn() -> io::Result<()>,
    ) -> Result<Outcome, Box<dyn Error>> {
        // A slow reader covers less in its first pass; read only that again.
        let mut again = AGAIN;
        if self == Self::Again {
            ready()?;
            again = sequential(&mut *readers[0], (1, 128 << 10), AGAIN)?.bytes;
        }
        ready()?;
        let (started, before) = (now(), cpu());
        let mut outcome = match self {
            Self::Sequential(positions, step) => {
                sequential(&mut *readers[0], (positions, step), TOTAL)?
            }
            Self::Whole => sequential(&mut *readers[0], (1, 128 << 10), WHOLE)?,
            Self::Random(reads, threads) => random(&mut *readers[0], reads, threads)?,
            Self::Paced => paced(readers)?,
            Self::Again => sequential(&mut *readers[0], (1, 128 << 10), again)?,
        };
        outcome.seconds = started.elapsed().as_secs_f64();
        outcome.cpu = cpu() - before;
        Ok(outcome)
    }
}

/// Reads at alternating, evenly spaced positions, until all is read or the time is over.
#[expect(clippy::cast_precision_loss, reason = "less than 2^53 bytes")]
fn sequential(
    reader: &mut dyn Reader,
    (positions, step): (u64, usize),
    total: u64,
) -> io::Result<Outcome> {
    let (mut outcome, mut to) = (Outcome::default(), vec![0; step]);
    let cap = std::env::var("CAP").ok().and_then(|cap| cap.parse().ok()).unwrap_or(CAP);
    let cap = cap * (total as f64 / TOTAL as f64).max(1.0);
    let (part, started) = (total / positions, now());
    let mut at = 0;
    while at < part && started.elapsed().as_secs_f64() < cap {
        for position in 0..positions {
            outcome.read(reader, &mut to, position * part + at)?;
        }
        at += step as u64;
    }
    Ok(outcome)
}

/// Reads 64 KiB in the middle of separate slots of 128 KiB, each slot once.
fn random(reader: &mut dyn Reader, reads: usize, threads: usize) -> io::Result<Outcome> {
    let places = places(reads);
    if threads == 1 {
        return at_places(reader, &places);
    }
    let outcomes: io::Result<Vec<Outcome>> = std::thread::scope(|scope| {
        let mut running = Vec::new();
        for mine in places.chunks(reads.div_ceil(threads)) {
            let mut reader = reader.another().ok_or(io::ErrorKind::Unsupported)?;
            running.push(scope.spawn(move || at_places(&mut *reader, mine)));
        }
        running.into_iter().map(|run| run.join().expect("it does not panic")).collect()
    });
    Ok(Outcome::sum(outcomes?))
}

/// Returns the first `count` slots, shuffled.
fn places(count: usize) -> Vec<u64> {
    let mut places: Vec<u64> = (0..PLACES).collect();
    let mut seed = 5_u64;
    for last in (1..places.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from(seed >> 33).expect("31 bits");
        places.swap(last, other % (last + 1));
    }
    places.truncate(count);
    places
}

fn at_places(reader: &mut dyn Reader, places: &[u64]) -> io::Result<Outcome> {
    let (mut outcome, mut to) = (Outcome::default(), vec![0; 64 << 10]);
    for place in places {
        outcome.read(reader, &mut to, place * PLACE + PLACE / 4)?;
    }
    Ok(outcome)
}

/// Reads each file in its own thread, at a fixed pace.
fn paced(readers: &mut [Box<dyn Reader>]) -> io::Result<Outcome> {
    let started = now();
    let outcomes: io::Result<Vec<Outcome>> = std::thread::scope(|scope| {
        let start = |reader: &mut Box<dyn Reader>| {
            let mut reader = std::mem::replace(reader, Box::new(Closed));
            scope.spawn(move || paced_one(&mut *reader, started))
        };
        let running: Vec<_> = readers.iter_mut().map(start).collect();
        running.into_iter().map(|run| run.join().expect("it does not panic")).collect()
    });
    Ok(Outcome::sum(outcomes?))
}

fn paced_one(reader: &mut dyn Reader, started: Instant) -> io::Result<Outcome> {
    let (mut outcome, mut to) = (Outcome::default(), vec![0; 128 << 10]);
    loop {
        // 1 MB/s: a microsecond for each byte.
        let due = Duration::from_micros(outcome.bytes);
        if due > PACED || started.elapsed() > PACED * 2 {
            return Ok(outcome);
        }
        sleep(due.saturating_sub(started.elapsed()));
        let at = outcome.bytes;
        outcome.read(reader, &mut to, at)?;
        outcome.late = outcome.late.max(Some(started.elapsed().saturating_sub(due)));
    }
}

impl Outcome {
    /// Returns the totals of all threads.
    fn sum(outcomes: Vec<Self>) -> Self {
        let mut total = Self::default();
        for outcome in outcomes {
            total.bytes += outcome.bytes;
            total.latencies.extend(outcome.latencies);
            total.late = total.late.max(outcome.late);
        }
        total
    }

    fn read(&mut self, reader: &mut dyn Reader, to: &mut [u8], at: u64) -> io::Result<()> {
        let started = now();
        reader.read_exact_at(to, at)?;
        self.latencies.push(started.elapsed());
        self.bytes += to.len() as u64;
        Ok(())
    }
}

/// Placeholder for a reader that was moved to its thread.
struct Closed;

impl Reader for Closed {
    fn read_exact_at(&mut self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::NotConnected.into())
    }

    fn another(&self) -> Option<Box<dyn Reader>> {
        None
    }
}

#[expect(clippy::disallowed_methods, reason = "what is measured is time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a reader with a pace of its own")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Bytes of a sequential workload.
const TOTAL: u64 = 256 << 20;

const WHOLE: u64 = 1 << 30;

/// Bytes that are read twice.
const AGAIN: u64 = 64 << 20;

/// Time limit of a sequential workload, in seconds.
const CAP: f64 = 2.0;

/// Slot of a random read; the slots cover 960 MiB.
const PLACE: u64 = 128 << 10;
const PLACES: u64 = 7680;

const STREAMS: usize = 32;
const PACED: Duration = Duration::from_secs(4);
