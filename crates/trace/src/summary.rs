//! Summarises a trace in one pass.

use std::collections::HashMap;

use foreread_core::units::Nanos;

use crate::error::TraceError;
use crate::format::TraceFormat;
use crate::reader::TraceReader;
use crate::record::{TraceLevel, TraceOp, TraceRecord};

/// Summary of a trace.
#[derive(Clone, Debug)]
pub struct TraceSummary {
    /// Format.
    pub format: TraceFormat,
    /// Level at which it was taken, if its format shows it.
    format_level: TraceLevel,
    /// Number of reads.
    pub reads: u64,
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Length of the longest read in bytes.
    pub longest_read: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes of all writes.
    pub write_bytes: u64,
    /// Number of accesses to mapped memory.
    pub mapped: u64,
    /// Time from the first record to the last.
    pub duration: Nanos,
    /// Files, by number.
    pub files: Vec<FileSummary>,
    /// Number of records by thread id.
    pub threads: HashMap<u32, u64>,
    /// Lines or records other than reads and writes.
    pub skipped: u64,
    /// Records with a time earlier than a previous record's.
    pub out_of_order: u64,
    /// The trace ends early: its writer was killed, or the disk was full.
    pub is_cut_off: bool,
    /// Notes on unknown or guessed columns, units and operations.
    pub notes: Vec<String>,
}

/// Summary of one file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FileSummary {
    /// Name.
    pub name: String,
    /// Length as given by the format, and at least to the end of the furthest access.
    pub len: u64,
    /// First byte accessed.
    pub first: u64,
    /// End of the furthest read, exclusive; 0 without reads.
    pub read_end: u64,
    /// Length of the longest read in bytes.
    pub longest_read: u64,
    /// Number of reads and writes.
    pub records: u64,
}

impl TraceSummary {
    /// Reads a trace to its end.
    ///
    /// # Errors
    ///
    /// If a line or record is invalid.
    pub fn of(mut reader: TraceReader<'_>) -> Result<Self, TraceError> {
        let mut summary = Self {
            format: reader.format(),
            format_level: reader.level(),
            reads: 0,
            read_bytes: 0,
            longest_read: 0,
            writes: 0,
            write_bytes: 0,
            mapped: 0,
            duration: Nanos(0),
            files: Vec::new(),
            threads: HashMap::new(),
            skipped: 0,
            out_of_order: 0,
            is_cut_off: false,
            notes: Vec::new(),
        };
        while let Some(record) = reader.next_record()? {
            summary.add(&record);
        }
        summary.files.resize(reader.files().all().len(), FileSummary::default());
        for (file, summary) in reader.files().all().iter().zip(&mut summary.files) {
            summary.name.clone_from(&file.name);
            summary.len = summary.len.max(file.size.unwrap_or(0));
        }
        summary.skipped = reader.skipped();
        summary.out_of_order = reader.out_of_order();
        summary.is_cut_off = reader.is_cut_off();
        summary.notes = reader.notes();
        Ok(summary)
    }

    /// Returns the number of reads and writes.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.reads + self.writes
    }

    /// Returns the level at which the trace was taken. fio's logs of a device are below the page
    /// cache.
    #[must_use]
    pub fn level(&self) -> TraceLevel {
        let is_device = |file: &FileSummary| file.name.starts_with("/dev/");
        if !self.files.is_empty() && self.files.iter().all(is_device) {
            return TraceLevel::Block;
        }
        self.format_level
    }

    fn add(&mut self, record: &TraceRecord) {
        match record.op {
            TraceOp::Read => {
                self.reads += 1;
                self.read_bytes = self.read_bytes.saturating_add(record.length);
                self.longest_read = self.longest_read.max(record.length);
            }
            TraceOp::Write => {
                self.writes += 1;
                self.write_bytes = self.write_bytes.saturating_add(record.length);
            }
        }
        self.mapped += u64::from(record.is_mapped);
        self.duration = record.at;
        *self.threads.entry(record.thread).or_default() += 1;
        let index = record.file.0 as usize;
        if self.files.len() <= index {
            self.files.resize(index + 1, FileSummary::default());
        }
        let file = &mut self.files[index];
        file.first = if file.records == 0 { record.offset } else { file.first.min(record.offset) };
        let end = record.offset + record.length;
        file.len = file.len.max(end);
        if record.op == TraceOp::Read {
            file.read_end = file.read_end.max(end);
            file.longest_read = file.longest_read.max(record.length);
        }
        file.records += 1;
    }
}
