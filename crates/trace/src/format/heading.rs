//! Heading of a CSV: maps columns to fields by their names.
//!
//! Every column that is ignored, and every value that is assumed, is reported in a note. Names are
//! compared without case and without anything but letters and digits, so that `I/O Type`, `io_type`
//! and `IOType` are equal.

use super::columns::{self, ColumnLayout, OpCode};
use super::split::{Separator, split};
use crate::field::short;
use crate::format::TraceFormat;

/// A parsed heading.
#[derive(Clone, Debug)]
pub(crate) struct Heading {
    pub(crate) format: TraceFormat,
    pub(crate) layout: ColumnLayout,
    /// Number of its columns.
    columns: usize,
    /// Ignored columns and missing fields.
    pub(crate) notes: Vec<String>,
}

impl Heading {
    /// Returns true if a line has as many columns as this names.
    pub(crate) fn fits(&self, line: &str) -> bool {
        let mut fields = Vec::new();
        split(line, self.layout.separator, &mut fields);
        fields.len() == self.columns
    }
}

/// Parses a heading, or returns None if the line is none.
///
/// # Errors
///
/// If it is a heading without a column for time, offset or length.
pub(crate) fn of_heading(line: &str) -> Result<Option<Heading>, String> {
    let mut missing = None;
    for separator in [Separator::Comma, Separator::Tab, Separator::Semicolon, Separator::Blank] {
        let mut fields = Vec::new();
        split(line, separator, &mut fields);
        let names: Vec<&str> = fields.iter().map(AsRef::as_ref).collect();
        let is_name = |name: &&str| !name.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        if names.len() < 3 || !names.iter().all(is_name) {
            continue;
        }
        match (HeadingNames { names: &names, separator }).heading() {
            Ok(heading) => return Ok(Some(heading)),
            Err(why) => missing = missing.or(why),
        }
    }
    missing.map_or(Ok(None), Err)
}

struct HeadingNames<'h> {
    names: &'h [&'h str],
    separator: Separator,
}

impl HeadingNames<'_> {
    /// Returns the heading. The error is None if too few names are known for a heading.
    fn heading(&self) -> Result<Heading, Option<String>> {
        if let Some(format) = self.public() {
            let layout = ColumnLayout { separator: self.separator, ..columns::layout(format) };
            let columns = self.names.len();
            return Ok(Heading { format, layout, columns, notes: Vec::new() });
        }
        let time = self.time();
        let (sector, offset) = (self.find(SECTOR), self.find(OFFSET));
        let (sectors, bytes) = (self.find(SECTORS), self.find(LENGTH));
        let (Some((time, time_unit_ns)), Some(offset_at), Some(length)) =
            (time, offset.or(sector), bytes.or(sectors))
        else {
            let found = [time.is_some(), offset.or(sector).is_some(), bytes.or(sectors).is_some()];
            return Err(self.missing(found));
        };
        let op = self.op(offset.is_none());
        let files = self.files();
        let lun = files[0].is_some_and(|at| squeezed(self.names[at]) == "lun");
        let layout = ColumnLayout {
            separator: self.separator,
            time,
            time_unit_ns,
            op: op.map(|(at, _)| at),
            op_code: op.map_or(OpCode::Any, |(_, code)| code),
            file: files,
            file_prefix: if lun { "lun-" } else { "" },
            has_escapes: true,
            offset: offset_at,
            offset_unit: if offset.is_some() { 1 } else { 512 },
            length,
            length_unit: if bytes.is_some() { 1 } else { 512 },
            thread: self.find(THREAD),
            mapped: self.find(&["mapped", "ismapped"]),
            columns: self.names.len(),
            is_of_device: lun || offset.is_none(),
        };
        let (columns, notes) = (self.names.len(), self.notes(&layout));
        Ok(Heading { format: TraceFormat::Csv, layout, columns, notes })
    }

    /// Returns the public format with this heading.
    fn public(&self) -> Option<TraceFormat> {
        let names: Vec<String> = self.names.iter().map(|name| squeezed(name)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match names[..] {
            ["timestamp", "hostname", "disknumber", "type", "offset", "size", "responsetime"] => {
                Some(TraceFormat::Msr)
            }
            ["deviceid", "opcode", "offset", "length", "timestamp"] => Some(TraceFormat::Alibaba),
            ["timestamp", "offset", "size", "iotype", "volumeid"] => Some(TraceFormat::Tencent),
            ["asu", "lba", "size", "opcode", "timestamp"] => Some(TraceFormat::Spc),
            _ => None,
        }
    }

    fn find(&self, wanted: &[&str]) -> Option<usize> {
        let at = |name: &&str| self.names.iter().position(|found| squeezed(found) == **name);
        wanted.iter().find_map(at)
    }

    /// Returns the column of times and its unit; 0 if the heading does not give one.
    fn time(&self) -> Option<(usize, u64)> {
        let unit_of = |base: &str, name: &str| {
            let all = squeezed(name);
            let suffix = all.strip_prefix(base)?;
            if suffix.is_empty() {
                return Some(if base == "filetime" { 100 } else { 0 });
            }
            // Otherwise the plural would be one in seconds.
            let is_apart = !name.to_ascii_lowercase().contains(&format!("{base}s"));
            let is_unit = |(unit, _): &&(&str, u64)| *unit == suffix && (suffix != "s" || is_apart);
            UNITS.iter().find(is_unit).map(|(_, ns)| *ns)
        };
        let find = |bases: &[&str]| {
            let with = |(at, name): (usize, &&str)| {
                let unit_ns = bases.iter().find_map(|base| unit_of(base, name))?;
                Some((at, unit_ns))
            };
            let all: Vec<(usize, u64)> = self.names.iter().enumerate().filter_map(with).collect();
            all.iter().find(|(_, unit)| *unit > 0).or(all.first()).copied()
        };
        find(TIME).or_else(|| find(MAY_BE_DURATION))
    }

    fn op(&self, is_in_sectors: bool) -> Option<(usize, OpCode)> {
        // vscsiStats' own export has a column for the SCSI command code next to the sector.
        let code = if is_in_sectors { OpCode::Scsi } else { OpCode::Any };
        self.find(OP)
            .map(|at| (at, code))
            .or_else(|| Some((self.find(&["iswrite", "write"])?, OpCode::ZeroReads)))
            .or_else(|| Some((self.find(&["isread", "read"])?, OpCode::OneReads)))
    }

    /// Returns the columns that identify a file: a host and a disk together do.
    fn files(&self) -> [Option<usize>; 2] {
        match (self.find(&["hostname", "host"]), self.find(FILE)) {
            (Some(host), Some(file)) => [Some(host), Some(file)],
            (host, file) => [file.or(host), None],
        }
    }

    fn notes(&self, layout: &ColumnLayout) -> Vec<String> {
        let used = layout.used();
        let is_unused = |(at, name): &(usize, &&str)| {
            !used.contains(at) && !name.is_empty() && !KNOWN.contains(&squeezed(name).as_str())
        };
        let unused: Vec<String> = self
            .names
            .iter()
            .enumerate()
            .filter(is_unused)
            .map(|(_, name)| short(name).to_owned())
            .take(MAX_NAMED)
            .collect();
        let mut notes = Vec::new();
        if layout.op.is_none() && !unused.is_empty() {
            notes.push(
                "the heading has no column for read or write (op): all records are taken as reads"
                    .to_owned(),
            );
        }
        if !unused.is_empty() {
            let unused = unused.join(", ");
            notes.push(format!("ignored unknown columns: {unused}"));
        }
        notes
    }

    /// Returns the missing fields of a heading that has only some of time, offset and length.
    fn missing(&self, found: [bool; 3]) -> Option<String> {
        let op = self.find(OP).is_some();
        let known = found.iter().filter(|found| **found).count() + usize::from(op);
        if known < 2 && !(known == 1 && self.separator != Separator::Blank) {
            return None;
        }
        let wanted = [
            "time (time_ns, time_us, time_ms, time_s)",
            "offset (offset in bytes; lba or sector)",
            "length (size in bytes; sectors)",
        ];
        let lacks = wanted.iter().zip(found).filter(|(_, found)| !found).map(|(name, _)| *name);
        let lacks = lacks.collect::<Vec<_>>().join(", for ");
        let names: Vec<&str> = self.names.iter().take(MAX_NAMED).map(|name| short(name)).collect();
        let objects = if found[1] {
            ""
        } else {
            "; for a trace of whole objects add a column offset of zeroes"
        };
        Some(format!(
            "its heading has no column for {lacks}; it has {}: rename the right column{objects}",
            names.join(", ")
        ))
    }
}

fn squeezed(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

const TIME: &[&str] = &[
    "time",
    "timestamp",
    "ts",
    "arrivaltime",
    "arrival",
    "starttime",
    "issuetime",
    "submittime",
    "filetime",
];

/// Beside a column of [`TIME`], these are the time that a request takes.
const MAY_BE_DURATION: &[&str] = &["optime", "iotime", "requesttime", "reqtime"];

const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("nsec", 1),
    ("nanoseconds", 1),
    ("us", 1_000),
    ("usec", 1_000),
    ("microseconds", 1_000),
    ("ms", 1_000_000),
    ("msec", 1_000_000),
    ("milliseconds", 1_000_000),
    ("s", 1_000_000_000),
    ("sec", 1_000_000_000),
    ("seconds", 1_000_000_000),
    ("filetime", 100),
    ("100ns", 100),
];

const OFFSET: &[&str] = &[
    "offset",
    "pos",
    "position",
    "byteoffset",
    "offsetbytes",
    "fileoffset",
    "iooffset",
    "startoffset",
    "startbyte",
];

const SECTOR: &[&str] = &[
    "lbn",
    "lba",
    "sector",
    "startsector",
    "startlba",
    "sectoroffset",
    "offsetsectors",
    "offsetsector",
    "lbaoffset",
    "sectornumber",
];

const LENGTH: &[&str] = &[
    "length",
    "len",
    "size",
    "bytes",
    "nbytes",
    "iosize",
    "iolength",
    "requestsize",
    "reqsize",
    "transfersize",
    "sizebytes",
    "lengthbytes",
    "bytecount",
];

const SECTORS: &[&str] = &[
    "sectors",
    "nsectors",
    "nrsectors",
    "numsectors",
    "sectorcount",
    "lengthsectors",
    "sizesectors",
    "sizeinsectors",
];

const OP: &[&str] = &[
    "op",
    "opcode",
    "operation",
    "optype",
    "opname",
    "iotype",
    "type",
    "rw",
    "readwrite",
    "requesttype",
    "reqtype",
    "request",
    "ioop",
    "rwbs",
    "rwflag",
    "cmd",
    "command",
    "direction",
    "accesstype",
    "action",
    // The heading of biosnoop, of the BPF compiler collection.
    "t",
];

const FILE: &[&str] = &[
    "file",
    "path",
    "device",
    "disk",
    "volume",
    "filename",
    "filepath",
    "pathname",
    "deviceid",
    "devid",
    "dev",
    "devicename",
    "diskid",
    "disknumber",
    "disknum",
    "diskname",
    "volumeid",
    "volid",
    "volumename",
    "lunid",
    "lun",
    "asu",
    "objectid",
    "object",
    "objid",
    "blockid",
    "key",
    "inode",
    "drive",
    "name",
];

const THREAD: &[&str] = &["thread", "tid", "pid", "threadid", "processid"];

/// Columns that a replay does not need.
const KNOWN: &[&str] =
    &["response", "responsetime", "latency", "version", "sn", "seq", "sequence", "index"];

/// Most columns listed in an error.
const MAX_NAMED: usize = 16;
