//! Measurements of each process and device in a run. Times are virtual, so they are exact;
//! quantiles have three digits.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Nanos};
use hdrhistogram::Histogram;

use crate::device::{DeviceCommand, StoreTotals};
use crate::time::seconds;

/// Measurements of a process.
#[derive(Clone, Debug)]
pub struct ProcessMeter {
    /// Name of the process.
    pub name: String,
    /// Number of reads or writes.
    pub ops: u64,
    /// Bytes read or written.
    pub bytes: ByteCount,
    /// Start time, possibly in the future.
    pub began: Nanos,
    /// End time; None if it was still running when the run ended.
    pub ended: Option<Nanos>,
    /// Number of operations that took time: all except hits.
    pub waits: u64,
    /// Time spent waiting for reads through the cache, in ns.
    pub waited_ns: u64,
    /// Number of windows requested by its files' streams.
    pub windows: u64,
    /// Number of pages in those windows that were read from a device.
    pub window_pages: u64,
    /// Measurements specific to its workload, by name.
    pub other: BTreeMap<&'static str, f64>,
    /// Allocated at the first operation: an empty histogram takes 16 KB, and a trace may have
    /// 200,000 threads.
    latency: Option<Box<Histogram<u64>>>,
    /// If false, `latency` is not recorded.
    keeps_latency: bool,
}

/// Measurements of a device.
#[derive(Clone, Debug)]
pub struct DeviceMeter {
    /// Name of the device.
    pub name: String,
    /// For an object store, its network requests.
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

/// Cumulative totals of a run; the difference of two covers the time between.
#[derive(Clone, Debug)]
pub struct RunTotals {
    /// Time of the snapshot.
    pub at: Nanos,
    /// Number of requests sent to all devices.
    pub requests: u64,
    /// Bytes of those requests.
    pub device_bytes: u64,
    /// Busy time of the devices, in seconds.
    pub device_s: f64,
    /// Totals of each process, in start order.
    pub processes: Vec<ProcessTotals>,
    /// Time that all processes waited for reads, in seconds.
    pub waited_s: f64,
    /// Number of pages read ahead and evicted unused.
    pub evicted_unread: u64,
}

/// Cumulative totals of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessTotals {
    /// Bytes read.
    pub bytes: u64,
    /// Number of windows requested by its streams.
    pub windows: u64,
    /// Number of pages in those windows that were read from a device.
    pub window_pages: u64,
    /// Time spent waiting for reads, in ns.
    pub waited_ns: u64,
}

impl ProcessTotals {
    /// Returns the difference since `before`.
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

/// Cumulative operations of a process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ProcessProgress {
    /// Number of operations.
    pub ops: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// Number of operations that took time: all except hits.
    pub waits: u64,
    /// Time spent waiting for reads through the cache, in ns.
    pub waited_ns: u64,
}

impl ProcessProgress {
    /// Returns the difference since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            ops: self.ops - before.ops,
            bytes: self.bytes - before.bytes,
            waits: self.waits - before.waits,
            waited_ns: self.waited_ns - before.waited_ns,
        }
    }

    /// Returns the sum of both.
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

    /// Stops recording latencies: a histogram of long waits takes up to 400 KB, and a run may have
    /// a thousand processes whose individual latencies are not shown.
    pub(crate) fn leave_out_latency(&mut self) {
        self.latency = None;
        self.keeps_latency = false;
    }

    /// Counts a completed operation.
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
        // The histogram grows with its largest value.
        latency.record(now.0 - began.0).expect("a histogram without bounds resizes itself");
    }

    /// Adds the delay between the due time and the start of the read that has just ended.
    ///
    /// # Panics
    ///
    /// If it began before it was due, or after it ended.
    pub(crate) fn began_late(&mut self, due: Nanos, began: Nanos, now: Nanos) {
        assert!(due < began && began <= now, "a late read begins after it was due");
        // A read that took time is already counted.
        self.waits += u64::from(began == now);
        self.waited_ns = self.waited_ns.saturating_add(began.0 - due.0);
    }

    /// Returns the latency of each operation, in ns; empty if it is not recorded.
    #[must_use]
    pub fn latency(&self) -> &Histogram<u64> {
        static NONE: LazyLock<Histogram<u64>> = LazyLock::new(no_latencies);
        self.latency.as_deref().unwrap_or(&NONE)
    }

    /// Returns the latency of the operations of all these processes, in ns.
    #[must_use]
    pub fn latency_of_all<'m>(meters: impl IntoIterator<Item = &'m Self>) -> Histogram<u64> {
        let mut all = no_latencies();
        let kept = meters.into_iter().filter_map(|meter| meter.latency.as_deref());
        kept.for_each(|latency| all += latency);
        all
    }

    /// Returns the running time in seconds, up to `end` if it is still running.
    #[must_use]
    pub fn seconds(&self, end: Nanos) -> f64 {
        // A process whose start was still in the future did not run.
        seconds(self.ended.unwrap_or(end).0.saturating_sub(self.began.0))
    }

    /// Returns the throughput, in MB/s.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn mb_per_s(&self, end: Nanos) -> f64 {
        self.bytes.0 as f64 / self.seconds(end).max(1e-9) / 1e6
    }

    /// Returns the mean latency of an operation, in ms.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        self.latency().mean() / 1e6
    }
}

/// Removes the operations that took no time: a million hits would hide the waits of the others.
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

    /// Counts a completed command of this size.
    pub(crate) fn ended(&mut self, now: Nanos, bytes: ByteCount) {
        assert!(self.in_flight > 0, "a command ends once");
        debug_assert!(now >= self.busy_since, "a command ends after it has begun");
        self.in_flight -= 1;
        self.in_flight_bytes -= bytes;
        if self.in_flight == 0 {
            self.busy_ns += now.0 - self.busy_since.0;
        }
    }

    /// Returns the number of commands received.
    #[must_use]
    pub fn requests(&self, op: Op) -> u64 {
        self.counts(op).requests
    }

    /// Returns the bytes of those commands.
    #[must_use]
    pub fn bytes(&self, op: Op) -> ByteCount {
        ByteCount(self.counts(op).bytes)
    }

    /// Returns the bytes of the commands in flight.
    #[must_use]
    pub fn in_flight_bytes(&self) -> ByteCount {
        self.in_flight_bytes
    }

    /// Returns the busy time, in seconds.
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
