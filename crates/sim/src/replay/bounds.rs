//! Lower bounds from an offline schedule that knows the whole trace: the baseline for the regret of
//! a replay.
//!
//! ```text
//!   fewest bytes      MIN's misses: a lower bound for any cache of that memory, with or without
//!                     read-ahead
//!   fewest requests   see lower_bounds
//!   least waiting     of an ideal read-ahead with perfect knowledge: from the start it transfers
//!                     MIN's misses in trace order at the device's best rate, pays one latency in
//!                     total, and is ahead by at most the memory
//! ```
//!
//! The bound on waiting holds for any schedule that serves reads in trace order. One that lets a
//! late, short read overtake a long one may wait less in total.

use std::collections::{HashMap, VecDeque};

use foreread_core::units::{Nanos, PAGE_SIZE, Pages};
use foreread_trace::{TraceOp, TraceSummary};

use super::feed::scaled;
use super::player::{Replay, ReplayPace};
use super::{OpenTrace, ReplayError};
use crate::cache_policy::{CacheKey, FutureUses, UseCollector};
use crate::lower_bounds::{fewest_ranges, fewest_requests};

/// Lower bounds of one trace at one memory size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReplayBounds {
    /// Bytes that must be requested from the device.
    pub fewest_bytes: u64,
    /// Requests for them; None if the device accepts requests as large as the memory.
    pub fewest_requests: Option<u64>,
    /// Sum of all waits, in ns.
    pub least_waited_ns: u64,
}

/// The reads of a trace, with the next use of each page.
#[derive(Debug)]
pub struct TraceFuture {
    uses: FutureUses,
    /// Number of pages of each read.
    pages: Vec<u32>,
    /// By key: number of valid bytes, for pages that contain the end of a file.
    tails: HashMap<u32, u64>,
    /// All pages of the trace, by device page.
    places: Vec<CacheKey>,
}

impl TraceFuture {
    /// Reads a trace. None if it is longer than [`FutureUses::MAX_USES`] pages.
    ///
    /// # Errors
    ///
    /// If the trace is malformed.
    pub fn of(summary: &TraceSummary, open: &OpenTrace<'_>) -> Result<Option<Self>, ReplayError> {
        let starts = super::player::file_starts(summary);
        let mut uses = UseCollector::default();
        let (mut pages, mut tails) = (Vec::new(), HashMap::new());
        let mut reader = open()?;
        while let Some(record) = reader.next_record()? {
            if record.op == TraceOp::Write {
                continue;
            }
            let file = record.file.0;
            let len = summary.files[file as usize].len;
            let places = pages_of(record.offset, record.length, len);
            pages.push(u32::try_from(places.end - places.start).unwrap_or(u32::MAX));
            for place in places {
                let Some(key) = uses.add(CacheKey { file, place }) else { return Ok(None) };
                if (place + 1) * PAGE_SIZE > len {
                    tails.insert(key, len - place * PAGE_SIZE);
                }
            }
        }
        let on_device = |key: CacheKey| {
            let start = starts[key.file as usize] / PAGE_SIZE;
            CacheKey { file: 0, place: start + key.place }
        };
        let places = uses.keys().map(on_device).collect();
        Ok(uses.finish().map(|uses| Self { uses, pages, tails, places }))
    }

    /// Computes the bounds of a replay.
    ///
    /// # Errors
    ///
    /// If the trace is malformed.
    pub fn bounds(&self, how: &Replay, open: &OpenTrace<'_>) -> Result<ReplayBounds, ReplayError> {
        let memory = Pages((how.cache.memory.0.0 / PAGE_SIZE).max(1));
        let capacity = usize::try_from(memory.0).unwrap_or(usize::MAX);
        // A warm cache is full of unknown pages.
        let cached = if how.is_warmed { memory.0 } else { 0 };
        let (misses, bytes) = self.misses(capacity, cached);
        let largest = how.device.geometry().max_io;
        let pages: u64 = misses.iter().map(|count| u64::from(*count)).sum();
        let cover = fewest_ranges(self.places.clone(), largest).saturating_sub(cached);
        let schedule = InOrder::new(how, memory);
        let least_waited_ns = schedule.waited_ns(how, &misses, open)?;
        Ok(ReplayBounds {
            fewest_bytes: bytes,
            fewest_requests: fewest_requests(pages, cover, largest, memory),
            least_waited_ns,
        })
    }

    /// Returns MIN's misses for each read, and their bytes. The first `cached` misses do not count.
    fn misses(&self, capacity: usize, cached: u64) -> (Vec<u32>, u64) {
        let mut misses = vec![0; self.pages.len()];
        let (mut read, mut left) = (0, self.pages.first().copied().unwrap_or(0));
        let (mut bytes, mut free) = (0, cached);
        self.uses.each(capacity, |key, is_miss| {
            while left == 0 {
                read += 1;
                left = self.pages[read];
            }
            left -= 1;
            if is_miss && free > 0 {
                free -= 1;
            } else if is_miss {
                misses[read] += 1;
                bytes += self.tails.get(&key).copied().unwrap_or(PAGE_SIZE);
            }
        });
        (misses, bytes)
    }
}

/// Returns the pages of a read, up to the end of the file.
pub(super) fn pages_of(offset: u64, length: u64, file_len: u64) -> std::ops::Range<u64> {
    let end = offset.saturating_add(length).min(file_len);
    offset / PAGE_SIZE..end.div_ceil(PAGE_SIZE).max(offset / PAGE_SIZE)
}

/// A device that transfers the misses of all reads in order, without a pause.
///
/// ```text
///   transfers   |lat|=read 1=|=read 2=|.. memory is full ..|=read 3=|
///   reads            due ^---wait---^      ^ read 1 is done: its pages may go
/// ```
struct InOrder {
    page_ns: f64,
    /// Time at which the last page of the reads so far arrives.
    ready_ns: f64,
    memory: Pages,
    /// Number of pages of all reads so far.
    pages: u64,
    /// Reads whose pages are still within the memory: cumulative pages including the read, and its
    /// completion time. None if reads may complete out of trace order.
    done: Option<VecDeque<(u64, f64)>>,
}

impl InOrder {
    fn new(how: &Replay, memory: Pages) -> Self {
        let is_in_order = matches!(how.pace, ReplayPace::Open { .. });
        Self {
            page_ns: PAGE_SIZE as f64 / how.device.max_bytes_per_s() * 1e9,
            ready_ns: how.device.min_latency_s() * 1e9,
            memory,
            pages: 0,
            done: is_in_order.then(VecDeque::new),
        }
    }

    /// Returns the completion time of a read that is due at `due_ns` and misses this many pages.
    fn read(&mut self, due_ns: f64, misses: u32) -> f64 {
        if misses == 0 {
            return due_ns;
        }
        self.pages += u64::from(misses);
        self.ready_ns += f64::from(misses) * self.page_ns;
        let full = self.pages.saturating_sub(self.memory.0);
        if let Some(done) = &mut self.done {
            // The last page of this read can arrive only after `full` earlier pages were used.
            while let Some((pages, at)) = done.front().copied() {
                if pages >= full {
                    if full > 0 {
                        self.ready_ns = self.ready_ns.max(at + self.page_ns);
                    }
                    break;
                }
                done.pop_front();
            }
        }
        let at = due_ns.max(self.ready_ns);
        if let Some(done) = &mut self.done {
            done.push_back((self.pages, at));
        }
        at
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a sum of waits, none of them negative"
    )]
    fn waited_ns(
        mut self,
        how: &Replay,
        misses: &[u32],
        open: &OpenTrace<'_>,
    ) -> Result<u64, ReplayError> {
        let mut reader = open()?;
        let mut waited_ns = 0.0;
        // Closed loop: each thread's last read, with its time in the trace and its completion here.
        let mut threads: HashMap<u32, (Nanos, f64)> = HashMap::new();
        let mut misses = misses.iter();
        while let Some(record) = reader.next_record()? {
            if record.op == TraceOp::Write {
                continue;
            }
            let Some(missed) = misses.next() else { break };
            let due_ns = match how.pace {
                ReplayPace::Open { scale } => scaled(record.at, scale).0 as f64,
                ReplayPace::Closed { think } => {
                    let (at, done) = threads.get(&record.thread).copied().unwrap_or_default();
                    done + scaled(Nanos(record.at.0 - at.0), think).0 as f64
                }
            };
            let done_ns = self.read(due_ns, *missed);
            waited_ns += done_ns - due_ns;
            threads.insert(record.thread, (record.at, done_ns));
        }
        Ok(waited_ns as u64)
    }
}
