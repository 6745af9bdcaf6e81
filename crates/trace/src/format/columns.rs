//! Formats whose lines are columns: MSR, SYSTOR, Tencent, Alibaba, MQSim, and CSV with a heading.
//!
//! In:    a line.
//! Out:   a record.
//! Never: a column that is guessed from its values: a format fixes them, or a heading names them.
//!
//! ```text
//!   msr      128166372003061629,hm,1,Read,383496192,32768,413  100 ns, host, disk, op, B, B, ..
//!   systor   1455592511.000512,0.001155,R,1,86700032,16384     s, .., op, lun, B, B
//!   tencent  1538323200,12910952,128,0,1063                    s, sectors, sectors, op, volume
//!   alibaba  419,W,8792731648,16384,1577808144360767           device, op, B, B, us
//!   mqsim    938513000 4 264719034 16 0                        ns, device, sectors, sectors, op
//! ```

use std::borrow::Cow;

use super::LineParser;
use super::split::{Separator, split};
use crate::field::{short, time_ns, unescaped, whole};
use crate::file_table::FileTable;
use crate::record::{RawRecord, TraceOp};

/// Which column is what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnLayout {
    separator: Separator,
    time: usize,
    time_unit_ns: u64,
    op: Option<usize>,
    op_code: OpCode,
    /// The columns that together name the file, and what stands before a number.
    file: [Option<usize>; 2],
    file_prefix: &'static str,
    offset: usize,
    offset_unit: u64,
    length: usize,
    length_unit: u64,
    thread: Option<usize>,
    mapped: Option<usize>,
    /// Whether its words are those of a device: sectors, units.
    pub(crate) is_of_device: bool,
}

/// How a column says read or write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum OpCode {
    /// A word that begins with R or W.
    Word,
    /// 0 is a read.
    ZeroReads,
    /// 1 is a read.
    OneReads,
    /// The hexadecimal code of a SCSI command, or a word.
    Scsi,
}

const BASE: ColumnLayout = ColumnLayout {
    separator: Separator::Comma,
    time: 0,
    time_unit_ns: 1,
    op: None,
    op_code: OpCode::Word,
    file: [None, None],
    file_prefix: "",
    offset: 0,
    offset_unit: 1,
    length: 0,
    length_unit: 1,
    thread: None,
    mapped: None,
    is_of_device: false,
};

pub(crate) const MSR: ColumnLayout = ColumnLayout {
    time_unit_ns: 100,
    op: Some(3),
    file: [Some(1), Some(2)],
    offset: 4,
    length: 5,
    ..BASE
};

pub(crate) const SYSTOR: ColumnLayout = ColumnLayout {
    time_unit_ns: 1_000_000_000,
    op: Some(2),
    file: [Some(3), None],
    file_prefix: "lun-",
    offset: 4,
    length: 5,
    ..BASE
};

pub(crate) const TENCENT: ColumnLayout = ColumnLayout {
    time_unit_ns: 1_000_000_000,
    op: Some(3),
    op_code: OpCode::ZeroReads,
    file: [Some(4), None],
    file_prefix: "volume-",
    offset: 1,
    offset_unit: 512,
    length: 2,
    length_unit: 512,
    ..BASE
};

pub(crate) const ALIBABA: ColumnLayout = ColumnLayout {
    time: 4,
    time_unit_ns: 1000,
    op: Some(1),
    file: [Some(0), None],
    file_prefix: "device-",
    offset: 2,
    length: 3,
    ..BASE
};

pub(crate) const MQSIM: ColumnLayout = ColumnLayout {
    separator: Separator::Blank,
    op: Some(4),
    op_code: OpCode::OneReads,
    file: [Some(1), None],
    file_prefix: "device-",
    offset: 2,
    offset_unit: 512,
    length: 3,
    length_unit: 512,
    ..BASE
};

/// A parser of lines with these columns.
pub(crate) struct ColumnParser {
    layout: ColumnLayout,
    name: String,
}

impl ColumnParser {
    pub(crate) fn new(layout: ColumnLayout) -> Self {
        Self { layout, name: String::new() }
    }
}

impl LineParser for ColumnParser {
    fn parse(&mut self, line: &str, files: &mut FileTable) -> Result<Option<RawRecord>, String> {
        let mut fields = Vec::with_capacity(8);
        split(line, self.layout.separator, &mut fields)?;
        let layout = self.layout;
        let op = match layout.op {
            Some(column) => match op_of(field(&fields, column, "op")?, layout.op_code)? {
                Some(op) => op,
                None => return Ok(None),
            },
            None => TraceOp::Read,
        };
        let at_ns = time_ns("time", field(&fields, layout.time, "time")?, layout.time_unit_ns)?;
        let offset = in_bytes(&fields, "offset", layout.offset, layout.offset_unit)?;
        let length = in_bytes(&fields, "length", layout.length, layout.length_unit)?;
        let thread = match layout.thread {
            Some(column) => {
                let thread = whole("thread", field(&fields, column, "thread")?)?;
                u32::try_from(thread).map_err(|_| format!("thread: {thread} is too large"))?
            }
            None => 0,
        };
        let is_mapped = match layout.mapped {
            Some(column) => matches!(field(&fields, column, "mapped")?, "1" | "true"),
            None => false,
        };
        name_of(&fields, &layout, &mut self.name)?;
        let file = files.number(&self.name)?;
        Ok(Some(RawRecord { at_ns, thread, file, op, offset, length, is_mapped }))
    }
}

fn field<'f>(fields: &'f [Cow<'_, str>], column: usize, name: &str) -> Result<&'f str, String> {
    let missing = || format!("{name}: no column {}, only {}", column + 1, fields.len());
    fields.get(column).map(Cow::as_ref).ok_or_else(missing)
}

fn in_bytes(fields: &[Cow<'_, str>], name: &str, column: usize, unit: u64) -> Result<u64, String> {
    let number = whole(name, field(fields, column, name)?)?;
    number.checked_mul(unit).ok_or_else(|| format!("{name}: {number} is too large"))
}

fn op_of(text: &str, code: OpCode) -> Result<Option<TraceOp>, String> {
    let wrong = || format!("op: {:?} is neither a read nor a write", short(text));
    match code {
        OpCode::Word => match text.as_bytes().first().map(u8::to_ascii_lowercase) {
            Some(b'r') => Ok(Some(TraceOp::Read)),
            Some(b'w') => Ok(Some(TraceOp::Write)),
            // Flushes, trims and the like.
            Some(first) if first.is_ascii_alphabetic() => Ok(None),
            Some(_) | None => Err(wrong()),
        },
        OpCode::ZeroReads | OpCode::OneReads => match (text, code == OpCode::ZeroReads) {
            ("0", true) | ("1", false) => Ok(Some(TraceOp::Read)),
            ("1", true) | ("0", false) => Ok(Some(TraceOp::Write)),
            (_, _) => Err(wrong()),
        },
        OpCode::Scsi => match u8::from_str_radix(text, 16) {
            Ok(code) => Ok(super::packed::scsi_op(u16::from(code))),
            Err(_) => op_of(text, OpCode::Word),
        },
    }
}

/// Puts the name of the file into `name`: fields joined by a dot, or a word and a number.
fn name_of(
    fields: &[Cow<'_, str>],
    layout: &ColumnLayout,
    name: &mut String,
) -> Result<(), String> {
    name.clear();
    for column in layout.file.into_iter().flatten() {
        name.push_str(if name.is_empty() { layout.file_prefix } else { "." });
        let part = field(fields, column, "file")?;
        if part.contains('%') { name.push_str(&unescaped(part)) } else { name.push_str(part) }
    }
    if name.is_empty() {
        name.push_str("disk");
    }
    Ok(())
}

/// The layout that a heading names; None if it is no heading of a trace.
pub(crate) fn of_heading(line: &str) -> Option<ColumnLayout> {
    let mut fields = Vec::new();
    split(line, Separator::Comma, &mut fields).ok()?;
    let names: Vec<String> = fields.iter().map(|name| name.to_ascii_lowercase()).collect();
    let find = |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.as_str()));
    let (time, time_unit_ns) = [
        (&["time_ns", "timestamp_ns"][..], 1),
        (&["time_us", "timestamp_us"], 1_000),
        (&["time_ms", "timestamp_ms"], 1_000_000),
        (&["time", "time_s", "timestamp", "timestamp_s"], 1_000_000_000),
    ]
    .into_iter()
    .find_map(|(names, unit)| Some((find(names)?, unit)))?;
    let sector = find(&["lbn", "lba", "sector"]);
    let offset = find(&["offset", "pos"]);
    let lun = find(&["lun"]);
    Some(ColumnLayout {
        time,
        time_unit_ns,
        op: find(&["op", "iotype", "type", "rw"]),
        // vscsiStats' own export has the code of the SCSI command beside the sector.
        op_code: if sector.is_some() { OpCode::Scsi } else { OpCode::Word },
        file: [find(&["file", "path", "device", "disk", "volume"]).or(lun), None],
        file_prefix: if lun.is_some() { "lun-" } else { "" },
        offset: offset.or(sector)?,
        offset_unit: if offset.is_some() { 1 } else { 512 },
        length: find(&["length", "len", "size", "bytes"])?,
        thread: find(&["thread", "tid", "pid"]),
        mapped: find(&["mapped"]),
        is_of_device: lun.is_some() || sector.is_some(),
        ..BASE
    })
}
