//! Measurements of a replay. The distribution of waits excludes hits: they take no time and would
//! drown it.

use std::collections::BTreeMap;

use foreread_core::units::Nanos;
use hdrhistogram::Histogram;

use crate::picture::RunPicture;
use crate::time_series::TimeSeries;

/// Figures of one replay.
#[derive(Clone, Debug)]
pub struct ReplayFigures {
    /// Number of reads.
    pub reads: u64,
    /// Bytes returned.
    pub bytes: u64,
    /// Number of reads that waited.
    pub waits: u64,
    /// Sum of all waits, in ns.
    pub waited_ns: u64,
    /// Duration of the reads that waited, in ns.
    pub wait_latency: Histogram<u64>,
    /// Reads that hit a fault or began past the end of their file.
    pub failed: u64,
    /// Open loop: reads that began after their due time, because the in-flight limit was reached.
    pub late: u64,
    /// Time from the first measured read to the last.
    pub elapsed_ns: u64,
    /// Number of device requests.
    pub requests: u64,
    /// Bytes of these requests.
    pub device_bytes: u64,
    /// Busy time of the device, in seconds.
    pub device_s: f64,
    /// Pages read ahead and evicted unused.
    pub evicted_unread: u64,
    /// Writes of the trace, which were skipped.
    pub writes: u64,
    /// Figures of each file or thread, by number.
    pub groups: BTreeMap<u32, GroupFigures>,
    /// Picture, on request.
    pub picture: Option<RunPicture>,
    /// Figures over time, on request.
    pub series: Option<TimeSeries>,
}

/// Figures of one file or thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct GroupFigures {
    /// Number of reads.
    pub reads: u64,
    /// Bytes returned.
    pub bytes: u64,
    /// Number of reads that waited.
    pub waits: u64,
    /// Sum of all waits, in ns.
    pub waited_ns: u64,
}

impl ReplayFigures {
    pub(super) fn new() -> Self {
        Self {
            reads: 0,
            bytes: 0,
            waits: 0,
            waited_ns: 0,
            wait_latency: Histogram::new(3).expect("1 to 5 significant digits are allowed"),
            failed: 0,
            late: 0,
            elapsed_ns: 0,
            requests: 0,
            device_bytes: 0,
            device_s: 0.0,
            evicted_unread: 0,
            writes: 0,
            groups: BTreeMap::new(),
            picture: None,
            series: None,
        }
    }

    pub(super) fn add(&mut self, group: Option<u32>, due: Nanos, done: Nanos, bytes: u64) {
        assert!(due <= done, "a read ends after it was due");
        let waited_ns = done.0 - due.0;
        let is_wait = waited_ns > 0;
        self.reads += 1;
        self.bytes += bytes;
        self.waits += u64::from(is_wait);
        self.waited_ns = self.waited_ns.saturating_add(waited_ns);
        if is_wait {
            let recorded = self.wait_latency.record(waited_ns);
            recorded.expect("a histogram without bounds resizes itself");
        }
        if let Some(group) = group {
            let figures = self.groups.entry(group).or_default();
            figures.reads += 1;
            figures.bytes += bytes;
            figures.waits += u64::from(is_wait);
            figures.waited_ns = figures.waited_ns.saturating_add(waited_ns);
        }
    }
}
