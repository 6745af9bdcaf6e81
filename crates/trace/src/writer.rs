//! Writes a trace as CSV, fio's iolog version 3 or foreread's own format.
//!
//! Nothing is dropped silently; the description of a format lists the fields that it cannot hold.

use std::io::{self, Write};

use crate::field::{escaped, short};
use crate::file_table::{FileTable, hash_of_name};
use crate::format::fio;
use crate::format::own::{MAGIC, OwnEncoder};
use crate::record::TraceRecord;

/// A format that can be written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OutputFormat {
    /// CSV with a heading: all fields, times in nanoseconds.
    Csv,
    /// fio's iolog, version 3: no threads, no mapped accesses; times in microseconds.
    FioV3,
    /// foreread's own format: all fields.
    Foreread,
}

/// Handling of names that the format cannot hold, as fio's logs have no escapes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UnheldNames {
    /// The record is refused.
    Refused,
    /// The hash of the name is written instead, and counted.
    Hashed,
}

/// Writes a trace.
#[derive(Debug)]
pub struct TraceWriter<W> {
    out: W,
    format: OutputFormat,
    encoder: OwnEncoder,
    buffer: Vec<u8>,
    /// Written names, by file number.
    names: Vec<Option<String>>,
    hashes_names: bool,
    unheld: UnheldNames,
    unheld_count: u64,
    has_begun: bool,
    count: u64,
}

impl OutputFormat {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Foreread, Self::Csv, Self::FioV3];

    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::FioV3 => "fio-3",
            Self::Foreread => "foreread",
        }
    }

    /// Returns the format of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

impl<W: Write> TraceWriter<W> {
    /// Creates a writer. With `hashes_names`, file names are replaced by hashes.
    pub fn new(out: W, format: OutputFormat, hashes_names: bool) -> Self {
        Self {
            out,
            format,
            encoder: OwnEncoder::default(),
            buffer: Vec::new(),
            names: Vec::new(),
            hashes_names,
            unheld: UnheldNames::Refused,
            unheld_count: 0,
            has_begun: false,
            count: 0,
        }
    }

    /// Sets the handling of names that the format cannot hold.
    #[must_use]
    pub fn unheld_names(mut self, unheld: UnheldNames) -> Self {
        self.unheld = unheld;
        self
    }

    /// Returns the number of names replaced by hashes because the format cannot hold them.
    #[must_use]
    pub fn hashed_names(&self) -> u64 {
        self.unheld_count
    }

    /// Returns the number of records so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Writes a record of a file in `files`.
    ///
    /// # Errors
    ///
    /// If the output fails; `InvalidInput` for a name that the format cannot hold.
    ///
    /// # Panics
    ///
    /// If `files` does not have the file.
    pub fn write(&mut self, record: &TraceRecord, files: &FileTable) -> io::Result<()> {
        self.begin();
        let file = files.get(record.file).expect("a record is of a file of its table");
        let is_new = self.names.get(record.file.0 as usize).is_none_or(Option::is_none);
        if is_new {
            let name = self.written_name(&file.name)?;
            let index = record.file.0 as usize;
            self.names.resize(self.names.len().max(index + 1), None);
            self.names[index] = Some(name);
        }
        let name = self.names[record.file.0 as usize].as_deref().unwrap_or_default();
        match self.format {
            OutputFormat::Foreread => {
                let size = file.size;
                if is_new {
                    let file = crate::file_table::TraceFile { name: name.to_owned(), size };
                    self.encoder.append(record, &file, &mut self.buffer);
                } else {
                    self.encoder.append(record, file, &mut self.buffer);
                }
            }
            OutputFormat::Csv => csv_line(&mut self.buffer, record, name),
            OutputFormat::FioV3 => {
                let at_us = record.at.0 / 1000;
                if is_new {
                    let _ = writeln!(self.buffer, "{at_us} {name} add\n{at_us} {name} open");
                }
                let (op, offset, length) = (record.op.name(), record.offset, record.length);
                let _ = writeln!(self.buffer, "{at_us} {name} {op} {offset} {length}");
            }
        }
        self.count += 1;
        if self.buffer.len() >= FLUSHED { self.flush_buffer() } else { Ok(()) }
    }

    /// Writes the buffered rest and the end mark, and returns the output.
    ///
    /// # Errors
    ///
    /// If the output fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.begin();
        if self.format == OutputFormat::Foreread {
            self.encoder.end(&mut self.buffer);
        }
        self.flush_buffer()?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn written_name(&mut self, name: &str) -> io::Result<String> {
        if self.hashes_names {
            return Ok(hash_of_name(name));
        }
        if self.format != OutputFormat::FioV3 || fio::holds(name) {
            return Ok(name.to_owned());
        }
        match self.unheld {
            UnheldNames::Hashed => {
                self.unheld_count += 1;
                Ok(hash_of_name(name))
            }
            UnheldNames::Refused => {
                let what = format!(
                    "fio-3 cannot express the name {:?}: fio accepts names without white space, \
                     up to 255 bytes; use --hash-names or another format",
                    short(name)
                );
                Err(io::Error::new(io::ErrorKind::InvalidInput, what))
            }
        }
    }

    fn begin(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        match self.format {
            OutputFormat::Foreread => self.buffer.extend_from_slice(MAGIC),
            OutputFormat::Csv => self.buffer.extend_from_slice(HEADING.as_bytes()),
            OutputFormat::FioV3 => {
                self.buffer.extend_from_slice(fio::HEAD_V3.as_bytes());
                self.buffer.push(b'\n');
            }
        }
    }

    fn flush_buffer(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

fn csv_line(buffer: &mut Vec<u8>, record: &TraceRecord, name: &str) {
    let TraceRecord { at, thread, op, offset, length, is_mapped, .. } = record;
    let name = csv_name(name);
    let (op, mapped) = (op.name(), u8::from(*is_mapped));
    // Writing to a vector cannot fail.
    let _ = writeln!(buffer, "{},{thread},{op},{name},{offset},{length},{mapped}", at.0);
}

/// Returns a name as a CSV field, escaped or quoted where necessary.
fn csv_name(name: &str) -> String {
    let has_control = name.contains(|c: char| c.is_control() || c == '%');
    let has_edge = name.trim() != name;
    let name = if has_control || has_edge { escaped(name) } else { name.to_owned() };
    if name.contains([',', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name }
}

const HEADING: &str = "time_ns,thread,op,file,offset,length,mapped\n";

/// Buffer size at which it is flushed.
const FLUSHED: usize = 64 << 10;
