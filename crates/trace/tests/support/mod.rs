//! Records as plain values, to compare.

use foreread_trace::{TraceError, TraceFormat, TraceOp, TraceReader};

/// A record with the name of its file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Plain {
    pub(crate) at_ns: u64,
    pub(crate) thread: u32,
    pub(crate) file: String,
    pub(crate) op: TraceOp,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) is_mapped: bool,
}

/// Reads a trace to its end.
pub(crate) fn read(bytes: &[u8]) -> Result<(TraceFormat, Vec<Plain>), TraceError> {
    let mut reader = TraceReader::new(bytes, "t")?;
    let mut found = Vec::new();
    while let Some(record) = reader.next_record()? {
        let file = reader.files().get(record.file).expect("a record's file is in the table");
        found.push(Plain {
            at_ns: record.at.0,
            thread: record.thread,
            file: file.name.clone(),
            op: record.op,
            offset: record.offset,
            length: record.length,
            is_mapped: record.is_mapped,
        });
    }
    Ok((reader.format(), found))
}

/// Reads a trace that is well formed.
pub(crate) fn records(bytes: &[u8]) -> (TraceFormat, Vec<Plain>) {
    read(bytes).unwrap_or_else(|error| panic!("{error}"))
}
