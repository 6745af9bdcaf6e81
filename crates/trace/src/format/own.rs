//! foreread's own compact format, which holds all fields.
//!
//! A trace from a killed writer ends early but loses no complete record. docs/lab/traces.md has the
//! layout for other programs. In short:
//!
//! ```text
//!   "foreread-trace" 0 1
//!   1 len name.. size+1        the next file; size+1 is 0 where the size is not known
//!   2 id                       the next thread
//!   128+flags ns [thread] [file] offset [length]
//!   0 count                    the end
//! ```
//!
//! All numbers are LEB128. `ns` is the time since the record before, `offset` the zigzag distance
//! from the end of the last access to the same file, so that a sequential read is a 0.

use std::io::{BufRead, Read as _};

use crate::file_table::{FileNo, FileTable, TraceFile};
use crate::record::{RawRecord, TraceOp, TraceRecord};

/// Magic bytes.
pub(crate) const MAGIC: &[u8; 16] = b"foreread-trace\x00\x01";

const END: u8 = 0;
const FILE: u8 = 1;
const THREAD: u8 = 2;
const ACCESS: u8 = 0x80;
const IS_WRITE: u8 = 1;
const IS_MAPPED: u8 = 2;
const SAME_THREAD: u8 = 4;
const SAME_FILE: u8 = 8;
const SAME_LENGTH: u8 = 16;

/// Values of the previous record, which the next one may leave out.
#[derive(Clone, Copy, Debug, Default)]
struct LastRecord {
    at_ns: u64,
    thread: u64,
    file: u64,
    length: u64,
}

/// Decodes the format after its magic bytes.
#[derive(Debug, Default)]
pub(crate) struct OwnDecoder {
    threads: Vec<u32>,
    /// End of the last access, by file.
    ends: Vec<u64>,
    last: LastRecord,
    count: u64,
    has_end: bool,
}

/// Reason for a missing value.
enum NoValue {
    /// The trace ends in the middle of a record.
    Cut,
    Wrong(String),
}

impl OwnDecoder {
    /// Returns true if the end mark was read, so the trace is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.has_end
    }

    /// Returns the next record, or None at the end or where the trace was cut off.
    pub(crate) fn next(
        &mut self,
        input: &mut impl BufRead,
        files: &mut FileTable,
    ) -> Result<Option<RawRecord>, String> {
        if self.has_end {
            return Ok(None);
        }
        match self.next_or_cut(input, files) {
            Ok(record) => Ok(record),
            Err(NoValue::Cut) => Ok(None),
            Err(NoValue::Wrong(what)) => Err(what),
        }
    }

    fn next_or_cut(
        &mut self,
        input: &mut impl BufRead,
        files: &mut FileTable,
    ) -> Result<Option<RawRecord>, NoValue> {
        loop {
            match byte(input)? {
                END => {
                    let count = varint(input)?;
                    if count != self.count {
                        let what = format!("the end mark has {count} records, not {}", self.count);
                        return Err(NoValue::Wrong(what));
                    }
                    self.has_end = true;
                    return nothing_more(input).map(|()| None);
                }
                FILE => {
                    let name = name(input)?;
                    let size = varint(input)?.checked_sub(1);
                    files.add(&name, size).map_err(NoValue::Wrong)?;
                    self.ends.push(0);
                }
                THREAD => {
                    let id = u32::try_from(varint(input)?);
                    let id =
                        id.map_err(|_| NoValue::Wrong("thread: its id is too large".into()))?;
                    if self.threads.len() >= MAX_THREADS {
                        return Err(NoValue::Wrong(format!("more than {MAX_THREADS} threads")));
                    }
                    self.threads.push(id);
                }
                tag if tag & ACCESS != 0 => return self.access(tag, input).map(Some),
                tag => return Err(NoValue::Wrong(format!("unknown record type {tag}"))),
            }
        }
    }

    fn access(&mut self, tag: u8, input: &mut impl BufRead) -> Result<RawRecord, NoValue> {
        let too_late = || NoValue::Wrong("time: too large".into());
        let last = &mut self.last;
        last.at_ns = last.at_ns.checked_add(varint(input)?).ok_or_else(too_late)?;
        if tag & SAME_THREAD == 0 {
            last.thread = varint(input)?;
        }
        if tag & SAME_FILE == 0 {
            last.file = varint(input)?;
        }
        let distance = unzigzag(varint(input)?);
        if tag & SAME_LENGTH == 0 {
            last.length = varint(input)?;
        }
        let index = usize::try_from(last.thread).unwrap_or(usize::MAX);
        let unknown = |kind| NoValue::Wrong(format!("a {kind} that was not defined before"));
        let thread = *self.threads.get(index).ok_or_else(|| unknown("thread"))?;
        let index = usize::try_from(last.file).unwrap_or(usize::MAX);
        let end = self.ends.get_mut(index).ok_or_else(|| unknown("file"))?;
        let offset = end.checked_add_signed(distance);
        let offset = offset.ok_or_else(|| NoValue::Wrong("offset: out of range".into()))?;
        *end = offset.saturating_add(last.length);
        self.count += 1;
        Ok(RawRecord {
            at_ns: last.at_ns,
            thread,
            file: FileNo(u32::try_from(index).map_err(|_| unknown("file"))?),
            op: if tag & IS_WRITE == 0 { TraceOp::Read } else { TraceOp::Write },
            offset,
            length: last.length,
            is_mapped: tag & IS_MAPPED != 0,
        })
    }
}

/// Encodes the format.
#[derive(Debug, Default)]
pub(crate) struct OwnEncoder {
    threads: std::collections::HashMap<u32, u64>,
    /// File numbers in this trace, by file number of the reader's table.
    files: Vec<Option<u64>>,
    ends: Vec<u64>,
    last: LastRecord,
    count: u64,
}

impl OwnEncoder {
    /// Appends a record, preceded by its file and thread if they are new.
    pub(crate) fn append(&mut self, record: &TraceRecord, file: &TraceFile, out: &mut Vec<u8>) {
        let thread = self.thread(record.thread, out);
        let number = self.file(record.file, file, out);
        let end = &mut self.ends[usize::try_from(number).expect("as many as files")];
        let last = self.last;
        let mut tag = ACCESS;
        tag |= if record.op == TraceOp::Write { IS_WRITE } else { 0 };
        tag |= if record.is_mapped { IS_MAPPED } else { 0 };
        tag |= if thread == last.thread { SAME_THREAD } else { 0 };
        tag |= if number == last.file { SAME_FILE } else { 0 };
        tag |= if record.length == last.length { SAME_LENGTH } else { 0 };
        out.push(tag);
        push_varint(out, record.at.0.saturating_sub(last.at_ns));
        if tag & SAME_THREAD == 0 {
            push_varint(out, thread);
        }
        if tag & SAME_FILE == 0 {
            push_varint(out, number);
        }
        push_varint(out, zigzag(record.offset.wrapping_sub(*end).cast_signed()));
        if tag & SAME_LENGTH == 0 {
            push_varint(out, record.length);
        }
        *end = record.offset + record.length;
        let at_ns = record.at.0.max(last.at_ns);
        self.last = LastRecord { at_ns, thread, file: number, length: record.length };
        self.count += 1;
    }

    /// Appends the end mark.
    pub(crate) fn end(&self, out: &mut Vec<u8>) {
        out.push(END);
        push_varint(out, self.count);
    }

    fn thread(&mut self, id: u32, out: &mut Vec<u8>) -> u64 {
        let next = self.threads.len() as u64;
        *self.threads.entry(id).or_insert_with(|| {
            out.push(THREAD);
            push_varint(out, u64::from(id));
            next
        })
    }

    fn file(&mut self, number: FileNo, file: &TraceFile, out: &mut Vec<u8>) -> u64 {
        let index = number.0 as usize;
        if self.files.len() <= index {
            self.files.resize(index + 1, None);
        }
        if let Some(number) = self.files[index] {
            return number;
        }
        out.push(FILE);
        push_varint(out, file.name.len() as u64);
        out.extend_from_slice(file.name.as_bytes());
        push_varint(out, file.size.map_or(0, |size| size.saturating_add(1)));
        let number = self.ends.len() as u64;
        self.files[index] = Some(number);
        self.ends.push(0);
        number
    }
}

/// Checks that nothing follows the end mark, as it would be ignored.
fn nothing_more(input: &mut impl BufRead) -> Result<(), NoValue> {
    let failed = |error: std::io::Error| NoValue::Wrong(format!("cannot be read: {error}"));
    let mut rest = Vec::new();
    input.take(MAGIC.len() as u64).read_to_end(&mut rest).map_err(failed)?;
    if rest.is_empty() {
        return Ok(());
    }
    let what = if rest == MAGIC {
        "another trace begins after the end mark: two were joined; give them as two traces"
    } else {
        "more bytes follow the end mark"
    };
    Err(NoValue::Wrong(what.into()))
}

fn byte(input: &mut impl BufRead) -> Result<u8, NoValue> {
    let failed = |error: std::io::Error| NoValue::Wrong(format!("cannot be read: {error}"));
    let byte = *input.fill_buf().map_err(failed)?.first().ok_or(NoValue::Cut)?;
    input.consume(1);
    Ok(byte)
}

fn varint(input: &mut impl BufRead) -> Result<u64, NoValue> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = byte(input)?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(NoValue::Wrong("a number of more than 64 bits".into()))
}

fn name(input: &mut impl BufRead) -> Result<String, NoValue> {
    let len = varint(input)?;
    if len > MAX_NAME {
        return Err(NoValue::Wrong(format!("a file name of {len} bytes; at most {MAX_NAME}")));
    }
    let bytes: Result<Vec<u8>, NoValue> = (0..len).map(|_| byte(input)).collect();
    String::from_utf8(bytes?).map_err(|_| NoValue::Wrong("a file name that is not UTF-8".into()))
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn zigzag(value: i64) -> u64 {
    (value << 1).cast_unsigned() ^ (value >> 63).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

const MAX_NAME: u64 = 4096;

/// Most threads of one trace.
const MAX_THREADS: usize = 1 << 20;
