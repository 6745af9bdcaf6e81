//! Feeds the records of a trace to the reading processes, in trace order or by thread, with at most
//! `MAX_QUEUED` records in memory. Writes are counted and skipped.

use std::collections::{HashMap, VecDeque};

use foreread_core::units::Nanos;
use foreread_trace::{TraceError, TraceOp, TraceReader, TraceRecord};

/// Largest number of records queued for threads that lag behind. At that limit, a thread with an
/// empty queue has to wait.
pub const MAX_QUEUED: usize = 1 << 18;

/// A trace being read.
pub(super) struct RecordFeed {
    reader: TraceReader<'static>,
    queues: HashMap<u32, VecDeque<TraceRecord>>,
    queued: usize,
    has_ended: bool,
    pub(super) error: Option<TraceError>,
    /// Number of skipped writes.
    pub(super) writes: u64,
}

/// Next record of a thread.
pub(super) enum NextRecord {
    Record(TraceRecord),
    /// The queues of other threads are full.
    Full,
    End,
}

impl RecordFeed {
    pub(super) fn new(reader: TraceReader<'static>) -> Self {
        let queues = HashMap::new();
        Self { reader, queues, queued: 0, has_ended: false, error: None, writes: 0 }
    }

    /// Returns the next read of the trace. An error ends the trace, and is kept.
    pub(super) fn next(&mut self) -> Option<TraceRecord> {
        while !self.has_ended {
            match self.reader.next_record() {
                Ok(Some(record)) if record.op == TraceOp::Write => self.writes += 1,
                Ok(Some(record)) => return Some(record),
                Ok(None) => self.has_ended = true,
                Err(error) => {
                    self.has_ended = true;
                    self.error = Some(error);
                }
            }
        }
        None
    }

    /// Returns the next read of a thread, and queues those of other threads on the way.
    pub(super) fn next_of(&mut self, thread: u32) -> NextRecord {
        if let Some(record) = self.queues.get_mut(&thread).and_then(VecDeque::pop_front) {
            self.queued -= 1;
            return NextRecord::Record(record);
        }
        while self.queued < MAX_QUEUED {
            match self.next() {
                None => return NextRecord::End,
                Some(record) if record.thread == thread => return NextRecord::Record(record),
                Some(record) => {
                    self.queues.entry(record.thread).or_default().push_back(record);
                    self.queued += 1;
                }
            }
        }
        NextRecord::Full
    }
}

/// Scales a time of the trace.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a scale is not negative, and a float saturates"
)]
pub(super) fn scaled(time: Nanos, scale: f64) -> Nanos {
    assert!(scale >= 0.0, "a scale is checked before the run");
    if scale == 1.0 { time } else { Nanos((time.0 as f64 * scale).round() as u64) }
}
