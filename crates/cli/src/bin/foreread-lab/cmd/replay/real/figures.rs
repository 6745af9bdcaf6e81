//! Figures of a real replay: distributions of waits, and accuracy of the issue times.
//!
//! Hits are excluded from the waits, which they would dominate, and so is delay of the clock.

use foreread_core::units::Nanos;
use hdrhistogram::Histogram;

use super::schedule::DueRead;

/// The figures of one run.
#[derive(Clone, Debug)]
pub(super) struct RealFigures {
    /// Number of reads.
    pub(super) reads: u64,
    /// Bytes of these reads.
    pub(super) bytes: u64,
    /// Reads that waited: not all of them was in memory, or they were blocked.
    pub(super) waits: u64,
    /// The sum of all waits.
    pub(super) waited_ns: u64,
    /// Duration of reads that waited, in ns.
    pub(super) wait_latency: Histogram<u64>,
    /// Issue delay of reads that were not blocked, in ns.
    pub(super) issue_delay: Histogram<u64>,
    /// Reads that were issued late because their thread's read before had not returned.
    pub(super) blocked: u64,
    /// Reads past the end that began again at the start.
    pub(super) wrapped: u64,
    /// When the last read was due, when it was issued, and when all had returned.
    pub(super) last_due: Nanos,
    pub(super) last_issue: Nanos,
    pub(super) elapsed: Nanos,
    /// Device bytes, if counted.
    pub(super) device_bytes: Option<u64>,
    /// Reads whose lane was ready before the trace had been read that far.
    pub(super) starved: u64,
    /// Writes of the trace, which are left out.
    pub(super) writes: u64,
    /// True if the user ended the run.
    pub(super) is_interrupted: bool,
}

/// A read that has returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReturnedRead {
    pub(super) read: DueRead,
    pub(super) issued: Nanos,
    pub(super) returned: Nanos,
    pub(super) is_hit: bool,
    pub(super) is_wrapped: bool,
}

impl RealFigures {
    pub(super) fn new() -> Self {
        let histogram = || Histogram::new(3).expect("1 to 5 significant digits are allowed");
        Self {
            reads: 0,
            bytes: 0,
            waits: 0,
            waited_ns: 0,
            wait_latency: histogram(),
            issue_delay: histogram(),
            blocked: 0,
            wrapped: 0,
            last_due: Nanos(0),
            last_issue: Nanos(0),
            elapsed: Nanos(0),
            device_bytes: None,
            starved: 0,
            writes: 0,
            is_interrupted: false,
        }
    }

    /// Adds a read.
    ///
    /// ```text
    ///   not blocked    due .. issued ======== returned      waits from its issue
    ///   blocked        due =========issued=== returned      waits from when it was due
    /// ```
    pub(super) fn add(&mut self, returned: &ReturnedRead) {
        let ReturnedRead { read, issued, returned: end, is_hit, is_wrapped } = *returned;
        assert!(read.due <= issued, "no read is issued early");
        assert!(issued <= end, "a read ends after it was issued");
        self.reads += 1;
        self.bytes += read.record.length;
        self.wrapped += u64::from(is_wrapped);
        self.last_due = self.last_due.max(read.due);
        self.last_issue = self.last_issue.max(issued);
        self.elapsed = self.elapsed.max(end);
        if read.is_blocked {
            self.blocked += 1;
        } else {
            record(&mut self.issue_delay, issued.0 - read.due.0);
        }
        if is_hit && !read.is_blocked {
            return;
        }
        let wait = end.0 - if read.is_blocked { read.due.0 } else { issued.0 };
        self.waits += 1;
        self.waited_ns = self.waited_ns.saturating_add(wait);
        record(&mut self.wait_latency, wait);
    }

    /// Returns the excess of the time from first to last issue over the plan, as a share; None if
    /// all reads were due at once.
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub(super) fn length_error(&self) -> Option<f64> {
        let planned = self.last_due.0;
        (planned > 0).then(|| self.last_issue.0 as f64 / planned as f64 - 1.0)
    }
}

fn record(histogram: &mut Histogram<u64>, ns: u64) {
    let recorded = histogram.record(ns);
    recorded.expect("a histogram without bounds resizes itself");
}

#[cfg(test)]
mod tests {
    use foreread_trace::{FileNo, TraceOp, TraceRecord};

    use super::*;

    fn returned(due: u64, issued: u64, end: u64, is_hit: bool, is_blocked: bool) -> ReturnedRead {
        let (file, op) = (FileNo(0), TraceOp::Read);
        let (at, thread, is_mapped) = (Nanos(due), 1, false);
        let record = TraceRecord { at, thread, file, op, offset: 0, length: 10, is_mapped };
        let read = DueRead { record, due: Nanos(due), is_blocked };
        let (issued, returned) = (Nanos(issued), Nanos(end));
        ReturnedRead { read, issued, returned, is_hit, is_wrapped: false }
    }

    #[test]
    fn waits_count_from_the_issue_or_from_when_a_blocked_read_was_due() {
        let mut figures = RealFigures::new();
        figures.add(&returned(0, 3, 103, false, false));
        figures.add(&returned(50, 52, 60, true, false));
        figures.add(&returned(70, 103, 104, true, true));
        figures.add(&returned(80, 104, 204, false, true));
        assert_eq!((figures.reads, figures.bytes, figures.waits, figures.blocked), (4, 40, 3, 2));
        assert_eq!(figures.waited_ns, 100 + 34 + 124);
        assert_eq!(figures.wait_latency.max(), 124);
        assert_eq!((figures.issue_delay.len(), figures.issue_delay.max()), (2, 3));
        assert_eq!(figures.elapsed, Nanos(204));
        let error = figures.length_error().expect("reads were due later than the first");
        assert!((error - (104.0 / 80.0 - 1.0)).abs() < 1e-9, "{error}");
        assert!(RealFigures::new().length_error().is_none());
    }
}
