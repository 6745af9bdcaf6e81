//! Turns stopped calls into records of a trace. A trace that cannot be written does not end the
//! program.

use std::io::{self, Write};
use std::time::Instant;

use foreread_trace::TraceWriter;

use crate::clock::now;
use crate::error::RecordError;
use crate::listener::StoppedCall;
use crate::observer::{ObservedRead, ReadObserver};
use crate::written_reads::{TimedRead, WrittenReads};

pub use crate::observer::UnseenReads;

/// Totals of a trace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RecordTotals {
    /// Reads of files.
    pub reads: u64,
    /// Bytes of these reads.
    pub bytes: u64,
    /// Files that were read.
    pub files: usize,
    /// Reads that were not seen.
    pub unseen: UnseenReads,
    /// Paths of the first programs that lost the rights of their owner or their capabilities
    /// (setuid, setgid).
    pub unprivileged: Vec<String>,
}

/// A trace that is being recorded.
#[derive(Debug)]
pub(crate) struct RecordedTrace {
    observer: ReadObserver,
    began: Instant,
    written: WrittenReads,
    /// The error if the trace cannot be written.
    output_error: Option<io::Error>,
    unprivileged: Vec<String>,
}

impl RecordedTrace {
    pub(crate) fn new() -> Self {
        Self {
            observer: ReadObserver::default(),
            began: now(),
            written: WrittenReads::default(),
            output_error: None,
            unprivileged: Vec::new(),
        }
    }

    /// Examines a stopped call, whose thread must stay stopped until then.
    pub(crate) fn observe(&mut self, call: &StoppedCall) -> Option<TimedRead> {
        let ObservedRead { file, offset, length } = self.observer.observe(call)?;
        let at_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Some(TimedRead { at_ns, thread: call.thread, file, offset, length })
    }

    /// Writes a read, if there is one.
    pub(crate) fn add<W: Write>(&mut self, read: Option<TimedRead>, writer: &mut TraceWriter<W>) {
        if let Some(read) = read
            && self.output_error.is_none()
        {
            self.output_error = self.written.write(read, writer, &self.observer.files).err();
        }
    }

    /// Records a program whose privileges were withheld.
    pub(crate) fn note_unprivileged(&mut self, program: String) {
        if self.unprivileged.len() < MAX_UNPRIVILEGED && !self.unprivileged.contains(&program) {
            self.unprivileged.push(program);
        }
    }

    /// Returns true if the trace cannot be written; later reads are lost.
    pub(crate) fn has_failed(&self) -> bool {
        self.output_error.is_some()
    }

    /// Ends the trace and returns its totals.
    ///
    /// # Errors
    ///
    /// If it could not be written.
    pub(crate) fn end(self) -> Result<RecordTotals, RecordError> {
        if let Some(error) = self.output_error {
            return Err(RecordError::Output(error));
        }
        let Self { written: WrittenReads { reads, bytes, .. }, observer, unprivileged, .. } = self;
        let (files, unseen) = (observer.files.all().len(), observer.unseen);
        Ok(RecordTotals { reads, bytes, files, unseen, unprivileged })
    }
}

/// Most programs named.
const MAX_UNPRIVILEGED: usize = 8;
