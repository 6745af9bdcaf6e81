//! Stopped calls as records of a trace.
//!
//! In:    calls, one after another; a writer.
//! Out:   records, their times counted from the first; what the trace holds.
//! Never: a program that is ended because the trace cannot be written.

use std::io::{self, Write};
use std::time::Instant;

use foreread_core::units::Nanos;
use foreread_trace::{MAX_LENGTH, TraceOp, TraceRecord, TraceWriter};

use crate::error::RecordError;
use crate::listener::StoppedCall;
use crate::observer::{ObservedRead, ReadObserver};

pub use crate::observer::UnseenReads;

/// What a trace holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RecordTotals {
    /// Reads of files.
    pub reads: u64,
    /// Bytes of these reads.
    pub bytes: u64,
    /// Files that were read.
    pub files: usize,
    /// What was not seen.
    pub unseen: UnseenReads,
}

/// A trace that is being recorded.
#[derive(Debug)]
pub(crate) struct RecordedTrace {
    observer: ReadObserver,
    began: Instant,
    /// The time of the first read, which is 0 in the trace.
    first: Option<u64>,
    reads: u64,
    bytes: u64,
    /// Why the trace cannot be written.
    output_error: Option<io::Error>,
}

/// A read that is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedRead {
    at_ns: u64,
    thread: u32,
    read: ObservedRead,
}

impl RecordedTrace {
    pub(crate) fn new() -> Self {
        Self {
            observer: ReadObserver::default(),
            began: now(),
            first: None,
            reads: 0,
            bytes: 0,
            output_error: None,
        }
    }

    /// Looks at a stopped call, whose thread must not go on before.
    pub(crate) fn observe(&mut self, call: &StoppedCall) -> Option<TimedRead> {
        let read = self.observer.observe(call)?;
        let at_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Some(TimedRead { at_ns, thread: call.thread, read })
    }

    /// Writes a read, if there is one.
    pub(crate) fn add<W: Write>(&mut self, read: Option<TimedRead>, writer: &mut TraceWriter<W>) {
        if let Some(read) = read
            && self.output_error.is_none()
        {
            self.output_error = self.write(read, writer).err();
        }
    }

    fn write<W: Write>(&mut self, read: TimedRead, writer: &mut TraceWriter<W>) -> io::Result<()> {
        let TimedRead { at_ns, thread, read: ObservedRead { file, mut offset, mut length } } = read;
        let first = *self.first.get_or_insert(at_ns);
        self.reads += 1;
        self.bytes = self.bytes.saturating_add(length);
        // A larger request is several records.
        while length > 0 {
            let part = length.min(MAX_LENGTH);
            let record = TraceRecord {
                at: Nanos(at_ns.saturating_sub(first)),
                thread,
                file,
                op: TraceOp::Read,
                offset,
                length: part,
                is_mapped: false,
            };
            writer.write(&record, &self.observer.files)?;
            offset = offset.saturating_add(part);
            length -= part;
        }
        Ok(())
    }

    /// What the trace holds.
    ///
    /// # Errors
    ///
    /// If it could not be written.
    pub(crate) fn end(self) -> Result<RecordTotals, RecordError> {
        if let Some(error) = self.output_error {
            return Err(RecordError::Output(error));
        }
        let Self { reads, bytes, observer, .. } = self;
        let (files, unseen) = (observer.files.all().len(), observer.unseen);
        Ok(RecordTotals { reads, bytes, files, unseen })
    }
}

#[expect(clippy::disallowed_methods, reason = "a recording is of real time")]
fn now() -> Instant {
    Instant::now()
}
