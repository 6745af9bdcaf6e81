//! Reads a trace of any format as a stream of records, with times relative to the first.
//!
//! Times never decrease: a record with an earlier time than the previous one gets that one's time.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use foreread_core::units::Nanos;

use crate::compressed::decompressed;
use crate::detect::{commented_heading, detect, first_line, is_comment};
use crate::error::{Position, TraceError};
use crate::file_table::FileTable;
use crate::format::heading::{Heading, of_heading};
use crate::format::own::{MAGIC, OwnDecoder};
use crate::format::packed::{PackedFormat, is_folded};
use crate::format::{LineParser, PackedParser as _, TraceFormat, blkparse, columns, fio};
use crate::record::{RawRecord, TraceLevel, TraceRecord};
use crate::text_lines::{MAX_LINE, NoLine, TextLines};
use crate::unsupported;

/// Reads a trace.
pub struct TraceReader<'r> {
    name: String,
    format: TraceFormat,
    level: TraceLevel,
    files: FileTable,
    body: TraceBody<'r>,
    /// Time of the first record.
    first_ns: Option<u64>,
    last: Nanos,
    count: u64,
    skipped: u64,
    out_of_order: u64,
}

enum TraceBody<'r> {
    Text { lines: TextLines<Box<dyn BufRead + 'r>>, parser: Box<dyn LineParser>, top: TextTop },
    Packed { input: Box<dyn BufRead + 'r>, format: PackedFormat, number: u64, folded: u64 },
    Own { input: Box<dyn BufRead + 'r>, decoder: OwnDecoder, number: u64 },
}

impl<'r> TraceReader<'r> {
    /// Opens a trace by path; `-` is stdin.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or its format is unknown.
    pub fn open(path: &Path, format: Option<TraceFormat>) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        if path == Path::new("-") {
            return Self::with_format(io::stdin(), "stdin", format);
        }
        let failed = |error| TraceError::new(&name, Position::Whole, format!("{error}"));
        let file = File::open(path).map_err(failed)?;
        Self::with_format(file, &name, format)
    }

    /// Reads a trace and detects its format by the first bytes. `name` is used in errors.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or its format is unknown.
    pub fn new(input: impl Read + 'r, name: &str) -> Result<Self, TraceError> {
        Self::with_format(input, name, None)
    }

    /// Reads a trace in the given format, or detects the format.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or its format is not given and unknown.
    pub fn with_format(
        input: impl Read + 'r,
        name: &str,
        format: Option<TraceFormat>,
    ) -> Result<Self, TraceError> {
        let wrong = |what: String| TraceError::new(name, Position::Whole, what);
        let failed = |error: io::Error| wrong(format!("cannot be read: {error}"));
        let input = BufReader::with_capacity(BUFFER, input);
        let mut input = decompressed(input).map_err(failed)?;
        let mut head = Vec::new();
        (&mut input).take(HEAD).read_to_end(&mut head).map_err(failed)?;
        if head.is_empty() {
            return Err(wrong("is empty".into()));
        }
        if let Some(what) = unsupported::by_magic(&head) {
            return Err(wrong(what));
        }
        let format = format.map_or_else(|| detect(&head), Ok).map_err(wrong)?;
        let (body, level) = TraceBody::new(format, head, input).map_err(wrong)?;
        Ok(Self {
            name: name.to_owned(),
            format,
            level,
            files: FileTable::default(),
            body,
            first_ns: None,
            last: Nanos(0),
            count: 0,
            skipped: 0,
            out_of_order: 0,
        })
    }

    /// Returns the format.
    #[must_use]
    pub fn format(&self) -> TraceFormat {
        self.format
    }

    /// Returns the level at which the trace was taken, as far as its first bytes show.
    #[must_use]
    pub fn level(&self) -> TraceLevel {
        self.level
    }

    /// Returns the files of the records so far.
    #[must_use]
    pub fn files(&self) -> &FileTable {
        &self.files
    }

    /// Returns the number of lines or records other than reads and writes.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns the number of records with a time earlier than a previous record's.
    #[must_use]
    pub fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// Returns true if the trace ended before its end mark: its writer was killed, or the disk was
    /// full. Traces in formats without such a mark are never cut off.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        matches!(&self.body, TraceBody::Own { decoder, .. } if !decoder.is_whole())
    }

    /// Returns notes on unknown or guessed columns, units and operations so far.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        match &self.body {
            TraceBody::Text { parser, .. } => parser.notes(),
            TraceBody::Packed { folded, .. } if *folded > 0 => {
                vec![format!("{folded} ids are not sectors of a disk; they are mapped to sectors")]
            }
            TraceBody::Packed { .. } | TraceBody::Own { .. } => Vec::new(),
        }
    }

    /// Returns the next record, or None at the end.
    ///
    /// # Errors
    ///
    /// If a line or record is invalid.
    pub fn next_record(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        loop {
            match self.body.next(&mut self.files) {
                Ok(Parsed::End) => return Ok(None),
                Ok(Parsed::Skipped) => self.skipped += 1,
                Ok(Parsed::Nothing) => {}
                Ok(Parsed::Record(raw)) => match raw.checked() {
                    Ok(Some(raw)) => return Ok(Some(self.record(raw))),
                    Ok(None) => self.skipped += 1,
                    Err(what) => return Err(self.wrong(what)),
                },
                Err(what) => return Err(self.wrong(what)),
            }
        }
    }

    fn record(&mut self, raw: RawRecord) -> TraceRecord {
        let first_ns = *self.first_ns.get_or_insert(raw.at_ns);
        // None: before the first one.
        match raw.at_ns.checked_sub(first_ns).map(Nanos) {
            Some(at) if at >= self.last => self.last = at,
            _ => self.out_of_order += 1,
        }
        self.count += 1;
        let RawRecord { thread, file, op, offset, length, is_mapped, .. } = raw;
        TraceRecord { at: self.last, thread, file, op, offset, length, is_mapped }
    }

    fn wrong(&self, what: String) -> TraceError {
        TraceError::new(&self.name, self.body.position(), what)
    }
}

impl std::fmt::Debug for TraceReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, format, count, .. } = self;
        write!(f, "TraceReader({name}, {}, {count} records)", format.name())
    }
}

/// The heading of a text.
#[derive(Debug, Default)]
struct TextTop {
    /// No line behind the comments at the top has been read.
    is_next: bool,
    heading: Option<String>,
    /// The heading is a comment.
    is_comment: bool,
}

impl TextTop {
    /// Returns true if the line is the heading, also where joined files repeat it.
    fn is_heading(&mut self, line: &str) -> bool {
        let is_first = std::mem::take(&mut self.is_next);
        let Some(heading) = &self.heading else { return false };
        (is_first && !self.is_comment) || heading == line
    }

    /// Returns true if a line without a request is a heading other than the first one.
    fn is_other_heading(&self, line: &str) -> bool {
        self.heading.is_some() && matches!(of_heading(line), Ok(Some(_)))
    }
}

/// Error for a second heading.
const OTHER_HEADING: &str = "another heading, with other columns: two traces were joined; give \
                             them as two";

/// A parsed line or record.
enum Parsed {
    Record(RawRecord),
    /// Neither a read nor a write.
    Skipped,
    /// A comment or a heading.
    Nothing,
    End,
}

impl<'r> TraceBody<'r> {
    fn new(
        format: TraceFormat,
        head: Vec<u8>,
        rest: Box<dyn BufRead + 'r>,
    ) -> Result<(Self, TraceLevel), String> {
        let mut level = format.level();
        let mut top = TextTop::default();
        let parser: Box<dyn LineParser> = match format {
            TraceFormat::VscsiV1 => {
                return Ok((Self::packed(PackedFormat::VscsiV1, head, rest), level));
            }
            TraceFormat::VscsiV2 => {
                return Ok((Self::packed(PackedFormat::VscsiV2, head, rest), level));
            }
            TraceFormat::OracleGeneral => {
                return Ok((Self::packed(PackedFormat::OracleGeneral, head, rest), level));
            }
            TraceFormat::Foreread => {
                let body = head.strip_prefix(MAGIC).ok_or("is not a foreread trace")?.to_vec();
                let input = Box::new(Cursor::new(body).chain(rest));
                return Ok((Self::Own { input, decoder: OwnDecoder::default(), number: 0 }, level));
            }
            TraceFormat::Blkparse => {
                Box::new(blkparse::BlkparseParser::new(&String::from_utf8_lossy(&head)))
            }
            TraceFormat::FioV2 => Box::new(fio::FioParser::new(false)),
            TraceFormat::FioV3 => Box::new(fio::FioParser::new(true)),
            TraceFormat::Msr
            | TraceFormat::Tencent
            | TraceFormat::Alibaba
            | TraceFormat::Systor
            | TraceFormat::Spc
            | TraceFormat::Mqsim
            | TraceFormat::Csv => {
                let is_csv = format == TraceFormat::Csv;
                let is_of_format = |found: &Heading| is_csv || found.format == format;
                let commented =
                    commented_heading(&head).filter(|(_, heading)| is_of_format(heading));
                let found = match commented {
                    Some((line, heading)) => Some((line, heading, true)),
                    None => {
                        let line = first_line(&head).unwrap_or_default();
                        let heading = of_heading(&line);
                        let heading = if is_csv { heading? } else { heading.unwrap_or_default() };
                        let heading = heading.filter(is_of_format);
                        heading.map(|heading| (line.into_owned(), heading, false))
                    }
                };
                top.is_next = true;
                let (layout, notes) = match found {
                    Some((line, heading, is_comment)) => {
                        top = TextTop { heading: Some(line), is_comment, ..top };
                        (heading.layout, heading.notes)
                    }
                    None if is_csv => {
                        return Err("line 1 has no columns for time, offset and length".into());
                    }
                    None => (columns::layout(format), Vec::new()),
                };
                level = if layout.is_of_device { TraceLevel::Block } else { level };
                Box::new(columns::ColumnParser::new(layout, notes))
            }
        };
        let lines: Box<dyn BufRead + 'r> = Box::new(Cursor::new(head).chain(rest));
        Ok((Self::Text { lines: TextLines::new(lines), parser, top }, level))
    }

    fn packed(format: PackedFormat, head: Vec<u8>, rest: Box<dyn BufRead + 'r>) -> Self {
        Self::Packed {
            input: Box::new(Cursor::new(head).chain(rest)),
            format,
            number: 0,
            folded: 0,
        }
    }

    fn position(&self) -> Position {
        match self {
            Self::Text { lines, .. } => Position::Line(lines.number),
            Self::Packed { number, .. } | Self::Own { number, .. } => Position::Record(*number),
        }
    }

    fn next(&mut self, files: &mut FileTable) -> Result<Parsed, String> {
        let found = |record: Option<RawRecord>| record.map_or(Parsed::Skipped, Parsed::Record);
        match self {
            Self::Text { lines, parser, top } => {
                if !lines.advance().map_err(no_line)? {
                    return Ok(Parsed::End);
                }
                let line = lines.text();
                // A comment before the heading does not count as one.
                let is_comment = is_comment(&line) && (top.is_next || parser.has_comments());
                if line.trim().is_empty() || is_comment || top.is_heading(&line) {
                    return Ok(Parsed::Nothing);
                }
                let record = parser.parse(&line, files)?;
                if record.is_none() && top.is_other_heading(&line) {
                    return Err(OTHER_HEADING.into());
                }
                Ok(found(record))
            }
            Self::Packed { input, format, number, folded } => {
                *number += 1;
                let mut record = [0; 64];
                let record = &mut record[..format.size()];
                match filled(input, record) {
                    Ok(0) => Ok(Parsed::End),
                    Ok(count) if count < record.len() => {
                        Err(format!("ends after {count} of {} bytes", record.len()))
                    }
                    Ok(_) => {
                        *folded += u64::from(is_folded(*format, record));
                        format.parse(record, files).map(found)
                    }
                    Err(error) => Err(format!("cannot be read: {error}")),
                }
            }
            Self::Own { input, decoder, number } => {
                *number += 1;
                let record = decoder.next(input, files)?;
                Ok(record.map_or(Parsed::End, Parsed::Record))
            }
        }
    }
}

/// Reads until the buffer is full or the input has ended.
fn filled(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match input.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn no_line(why: NoLine) -> String {
    match why {
        NoLine::Failed(error) => format!("cannot be read: {error}"),
        NoLine::TooLong => format!("is longer than {MAX_LINE} bytes"),
    }
}

/// Size of a read from the file.
const BUFFER: usize = 256 << 10;

/// Bytes used to detect the format.
const HEAD: u64 = 64 << 10;
