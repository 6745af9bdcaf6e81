//! Writes reads as records of a trace, with times counted from the first read. Records never exceed
//! the format's longest.

use std::io::{self, Write};

use foreread_core::units::Nanos;
use foreread_trace::{FileNo, FileTable, MAX_LENGTH, TraceOp, TraceRecord, TraceWriter};

/// A read with its time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TimedRead {
    pub(crate) at_ns: u64,
    pub(crate) thread: u32,
    pub(crate) file: FileNo,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Totals of the records written so far.
#[derive(Debug, Default)]
pub(crate) struct WrittenReads {
    /// Time of the first read, which is 0 in the trace.
    first_ns: Option<u64>,
    pub(crate) reads: u64,
    pub(crate) bytes: u64,
}

impl WrittenReads {
    /// Writes a read, as several records if it is longer than a record may be.
    pub(crate) fn write<W: Write>(
        &mut self,
        read: TimedRead,
        writer: &mut TraceWriter<W>,
        files: &FileTable,
    ) -> io::Result<()> {
        let TimedRead { at_ns, thread, file, mut offset, mut length } = read;
        let first = *self.first_ns.get_or_insert(at_ns);
        let at = Nanos(at_ns.saturating_sub(first));
        self.reads += 1;
        self.bytes = self.bytes.saturating_add(length);
        while length > 0 {
            let part = length.min(MAX_LENGTH);
            let (op, is_mapped) = (TraceOp::Read, false);
            let record = TraceRecord { at, thread, file, op, offset, length: part, is_mapped };
            writer.write(&record, files)?;
            offset = offset.saturating_add(part);
            length -= part;
        }
        Ok(())
    }
}
