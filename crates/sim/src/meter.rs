//! What is measured in a run: of each process and of each device.
//!
//! In:    what they do, when.
//! Out:   counts, times, and how long reads took.
//! Never: an estimate. Times are virtual, so they are exact; quantiles are to three digits.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Nanos};
use hdrhistogram::Histogram;

use crate::device::{DeviceCommand, StoreTotals};
use crate::time::seconds;

/// What a process did.
#[derive(Clone, Debug)]
pub struct ProcessMeter {
    /// Its name.
    pub name: String,
    /// How many reads, or writes, it did.
    pub ops: u64,
    /// How many bytes they came to.
    pub bytes: ByteCount,
    /// When it began, or begins.
    pub began: Nanos,
    /// When it ended; None if it was still at it when the run ended.
    pub ended: Option<Nanos>,
    /// How many of the reads, or writes, took time: all but hits.
    pub waits: u64,
    /// How long it waited for reads through the cache, in ns.
    pub waited_ns: u64,
    /// How many windows were asked for by its files' streams.
    pub windows: u64,
    /// How many pages those asked the device for.
    pub window_pages: u64,
    /// What only its own kind measures, by name.
    pub other: BTreeMap<&'static str, f64>,
    /// Made with the first operation: an empty histogram takes 16 KB, and a trace may have 200,000
    /// threads.
    latency: Option<Box<Histogram<u64>>>,
    /// Whether `latency` is kept.
    keeps_latency: bool,
}

/// What a device did.
#[derive(Clone, Debug)]
pub struct DeviceMeter {
    /// Its name.
    pub name: String,
    /// Of an object store, what it was asked over the network.
    pub store: Option<StoreTotals>,
    reads: OpCounts,
    writes: OpCounts,
    in_flight: u32,
    in_flight_bytes: ByteCount,
    busy_since: Nanos,
    busy_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct OpCounts {
    requests: u64,
    bytes: u64,
}

/// What happened in a run up to a time, in sums: the difference of two is what happened between.
#[derive(Clone, Debug)]
pub struct RunTotals {
    /// The time.
    pub at: Nanos,
    /// How many requests all devices were sent.
    pub requests: u64,
    /// How many bytes those asked for.
    pub device_bytes: u64,
    /// How long devices were at work, in seconds.
    pub device_s: f64,
    /// What each process did, in the order in which they began.
    pub processes: Vec<ProcessTotals>,
    /// How long all processes waited for reads, in seconds.
    pub waited_s: f64,
    /// How many pages were read ahead and evicted unused.
    pub evicted_unread: u64,
}

/// What a process did up to a time, in sums.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessTotals {
    /// How many bytes it read.
    pub bytes: u64,
    /// How many windows its streams asked for.
    pub windows: u64,
    /// How many pages those asked the device for.
    pub window_pages: u64,
    /// How long it waited for reads, in ns.
    pub waited_ns: u64,
}

impl ProcessTotals {
    /// What was done since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes - before.bytes,
            windows: self.windows - before.windows,
            window_pages: self.window_pages - before.window_pages,
            waited_ns: self.waited_ns - before.waited_ns,
        }
    }
}

/// The operations of a process up to a time, in sums.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ProcessProgress {
    /// How many it did.
    pub ops: u64,
    /// Bytes that they read or wrote.
    pub bytes: u64,
    /// How many of them took time: all but hits.
    pub waits: u64,
    /// How long it waited for reads through the cache, in ns.
    pub waited_ns: u64,
}

impl ProcessProgress {
    /// What was done since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            ops: self.ops - before.ops,
            bytes: self.bytes - before.bytes,
            waits: self.waits - before.waits,
            waited_ns: self.waited_ns - before.waited_ns,
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            ops: self.ops + other.ops,
            bytes: self.bytes + other.bytes,
            waits: self.waits + other.waits,
            waited_ns: self.waited_ns.saturating_add(other.waited_ns),
        }
    }
}

impl ProcessMeter {
    pub(crate) fn progress(&self) -> ProcessProgress {
        let Self { ops, bytes, waits, waited_ns, .. } = *self;
        ProcessProgress { ops, bytes: bytes.0, waits, waited_ns }
    }

    pub(crate) fn totals(&self) -> ProcessTotals {
        let Self { bytes, windows, window_pages, waited_ns, .. } = *self;
        ProcessTotals { bytes: bytes.0, windows, window_pages, waited_ns }
    }

    pub(crate) fn new(name: String, now: Nanos) -> Self {
        Self {
            name,
            ops: 0,
            bytes: ByteCount::ZERO,
            began: now,
            ended: None,
            waits: 0,
            waited_ns: 0,
            windows: 0,
            window_pages: 0,
            other: BTreeMap::new(),
            latency: None,
            keeps_latency: true,
        }
    }

    /// Keeps no latencies from now on: a histogram of long waits has up to 400 KB, and a run may
    /// have a thousand processes whose own latencies are not shown.
    pub(crate) fn leave_out_latency(&mut self) {
        self.latency = None;
        self.keeps_latency = false;
    }

    /// Counts an operation that has ended.
    ///
    /// # Panics
    ///
    /// If it ended before it began.
    pub fn op(&mut self, began: Nanos, now: Nanos, bytes: ByteCount) {
        assert!(began <= now, "an operation ends after it has begun");
        self.ops += 1;
        self.bytes += bytes;
        self.waits += u64::from(began < now);
        if !self.keeps_latency {
            return;
        }
        let latency = self.latency.get_or_insert_with(|| Box::new(no_latencies()));
        // The largest trackable value grows as needed.
        latency.record(now.0 - began.0).expect("a histogram without bounds resizes itself");
    }

    /// Counts the time from when the read that has just ended was due until it began.
    ///
    /// # Panics
    ///
    /// If it began before it was due, or after it ended.
    pub(crate) fn began_late(&mut self, due: Nanos, began: Nanos, now: Nanos) {
        assert!(due < began && began <= now, "a late read begins after it was due");
        // One that took time is counted already.
        self.waits += u64::from(began == now);
        self.waited_ns = self.waited_ns.saturating_add(began.0 - due.0);
    }

    /// How long each operation took, in ns; empty if that is not kept.
    #[must_use]
    pub fn latency(&self) -> &Histogram<u64> {
        static NONE: LazyLock<Histogram<u64>> = LazyLock::new(no_latencies);
        self.latency.as_deref().unwrap_or(&NONE)
    }

    /// How long the operations of all these processes took, in ns.
    #[must_use]
    pub fn latency_of_all<'m>(meters: impl IntoIterator<Item = &'m Self>) -> Histogram<u64> {
        let mut all = no_latencies();
        let kept = meters.into_iter().filter_map(|meter| meter.latency.as_deref());
        kept.for_each(|latency| all += latency);
        all
    }

    /// How long it ran, in seconds; until `end` if it has not ended.
    #[must_use]
    pub fn seconds(&self, end: Nanos) -> f64 {
        // One that would have begun later did not run.
        seconds(self.ended.unwrap_or(end).0.saturating_sub(self.began.0))
    }

    /// How fast it was, in MB/s.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn mb_per_s(&self, end: Nanos) -> f64 {
        self.bytes.0 as f64 / self.seconds(end).max(1e-9) / 1e6
    }

    /// The mean time of an operation, in ms.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        self.latency().mean() / 1e6
    }
}

/// The same without the operations that took no time: hits, a million of which would hide how long
/// the others waited.
///
/// # Panics
///
/// If the histogram was changed while it was read.
#[must_use]
pub fn without_hits(mut latency: Histogram<u64>) -> Histogram<u64> {
    let mut hits = Histogram::new_from(&latency);
    hits.record_n(0, latency.count_at(0)).expect("each histogram has room for 0");
    latency.subtract(&hits).expect("they were counted in it");
    latency
}

fn no_latencies() -> Histogram<u64> {
    Histogram::new(3).expect("1 to 5 significant digits are allowed")
}

impl DeviceMeter {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            store: None,
            reads: OpCounts::default(),
            writes: OpCounts::default(),
            in_flight: 0,
            in_flight_bytes: ByteCount::ZERO,
            busy_since: Nanos(0),
            busy_ns: 0,
        }
    }

    pub(crate) fn started(&mut self, now: Nanos, command: &DeviceCommand) {
        let counts = match command.op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
        };
        counts.requests += 1;
        counts.bytes += command.sectors.bytes().0;
        if self.in_flight == 0 {
            self.busy_since = now;
        }
        self.in_flight += 1;
        self.in_flight_bytes += command.sectors.bytes();
    }

    /// Counts the end of a command of so many bytes.
    pub(crate) fn ended(&mut self, now: Nanos, bytes: ByteCount) {
        assert!(self.in_flight > 0, "a command ends once");
        debug_assert!(now >= self.busy_since, "a command ends after it has begun");
        self.in_flight -= 1;
        self.in_flight_bytes -= bytes;
        if self.in_flight == 0 {
            self.busy_ns += now.0 - self.busy_since.0;
        }
    }

    /// How many commands it got.
    #[must_use]
    pub fn requests(&self, op: Op) -> u64 {
        self.counts(op).requests
    }

    /// How many bytes they asked for.
    #[must_use]
    pub fn bytes(&self, op: Op) -> ByteCount {
        ByteCount(self.counts(op).bytes)
    }

    /// How many bytes the commands ask for that have not ended.
    #[must_use]
    pub fn in_flight_bytes(&self) -> ByteCount {
        self.in_flight_bytes
    }

    /// How long it was at work, in seconds.
    #[must_use]
    pub fn busy_seconds(&self, end: Nanos) -> f64 {
        let now_busy = if self.in_flight > 0 { end.0 - self.busy_since.0 } else { 0 };
        seconds(self.busy_ns + now_busy)
    }

    fn counts(&self, op: Op) -> OpCounts {
        match op {
            Op::Read => self.reads,
            Op::Write => self.writes,
        }
    }
}
