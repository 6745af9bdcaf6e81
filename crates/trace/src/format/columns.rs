//! Formats with columns: MSR, SYSTOR, Tencent, Alibaba, SPC, MQSim, and CSV with a heading
//! ([`super::heading`]).
//!
//! The format fixes columns and units, or a heading names them; any guess is reported in a note.
//!
//! ```text
//!   msr      128166372003061629,hm,1,Read,383496192,32768,413  100 ns, host, disk, op, B, B, ..
//!   systor   1455592511.000512,0.001155,R,1,86700032,16384     s, .., op, lun, B, B
//!   tencent  1538323200,12910952,128,0,1063                    s, sectors, sectors, op, volume
//!   alibaba  419,W,8792731648,16384,1577808144360767           device, op, B, B, us
//!   spc      0,20941264,8192,W,0.551706                        ASU, sectors, B, op, s
//!   mqsim    938513000 4 264719034 16 0                        ns, device, sectors, sectors, op
//! ```

use std::borrow::Cow;

use super::split::{Separator, split};
use super::{LineParser, TraceFormat, operation};
use crate::field::{short, time_ns, unescaped, whole};
use crate::file_table::FileTable;
use crate::record::{RawRecord, TraceOp};

pub(crate) use super::operation::OpCode;

/// Assignment of columns to fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnLayout {
    pub(super) separator: Separator,
    pub(super) time: usize,
    /// 0 if the heading does not give the unit.
    pub(super) time_unit_ns: u64,
    pub(super) op: Option<usize>,
    pub(super) op_code: OpCode,
    /// Columns that together name the file.
    /// Text before a file number.
    pub(super) file: [Option<usize>; 2],
    pub(super) file_prefix: &'static str,
    /// Names contain escapes: `%` and two hexadecimal digits for a byte.
    pub(super) has_escapes: bool,
    pub(super) offset: usize,
    pub(super) offset_unit: u64,
    pub(super) length: usize,
    pub(super) length_unit: u64,
    pub(super) thread: Option<usize>,
    pub(super) mapped: Option<usize>,
    /// Number of columns of the heading, or 0 without one.
    pub(super) columns: usize,
    /// Its column names are those of a device: sectors, units.
    pub(crate) is_of_device: bool,
}

const BASE: ColumnLayout = ColumnLayout {
    separator: Separator::BareComma,
    time: 0,
    time_unit_ns: 1,
    op: None,
    op_code: OpCode::Word,
    file: [None, None],
    file_prefix: "",
    has_escapes: false,
    offset: 0,
    offset_unit: 1,
    length: 0,
    length_unit: 1,
    thread: None,
    mapped: None,
    columns: 0,
    is_of_device: false,
};

const MSR: ColumnLayout = ColumnLayout {
    time_unit_ns: 100,
    op: Some(3),
    file: [Some(1), Some(2)],
    offset: 4,
    length: 5,
    ..BASE
};

const SYSTOR: ColumnLayout = ColumnLayout {
    time_unit_ns: 1_000_000_000,
    op: Some(2),
    file: [Some(3), None],
    file_prefix: "lun-",
    offset: 4,
    length: 5,
    ..BASE
};

const TENCENT: ColumnLayout = ColumnLayout {
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

const ALIBABA: ColumnLayout = ColumnLayout {
    time: 4,
    time_unit_ns: 1000,
    op: Some(1),
    file: [Some(0), None],
    file_prefix: "device-",
    offset: 2,
    length: 3,
    ..BASE
};

const MQSIM: ColumnLayout = ColumnLayout {
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

const SPC: ColumnLayout = ColumnLayout {
    time: 4,
    time_unit_ns: 1_000_000_000,
    op: Some(3),
    file: [Some(0), None],
    file_prefix: "asu-",
    offset: 1,
    offset_unit: 512,
    length: 2,
    ..BASE
};

/// Returns the columns of a format with a fixed layout.
///
/// # Panics
///
/// If the format has none.
pub(crate) fn layout(format: TraceFormat) -> ColumnLayout {
    match format {
        TraceFormat::Msr => MSR,
        TraceFormat::Systor => SYSTOR,
        TraceFormat::Tencent => TENCENT,
        TraceFormat::Alibaba => ALIBABA,
        TraceFormat::Spc => SPC,
        TraceFormat::Mqsim => MQSIM,
        TraceFormat::Blkparse
        | TraceFormat::FioV2
        | TraceFormat::FioV3
        | TraceFormat::VscsiV1
        | TraceFormat::VscsiV2
        | TraceFormat::OracleGeneral
        | TraceFormat::Csv
        | TraceFormat::Foreread => unreachable!("{} has no fixed columns", format.name()),
    }
}

impl ColumnLayout {
    /// Returns the columns in use.
    pub(super) fn used(&self) -> Vec<usize> {
        let optional = [self.op, self.thread, self.mapped, self.file[0], self.file[1]];
        let required = [self.time, self.offset, self.length];
        required.into_iter().chain(optional.into_iter().flatten()).collect()
    }
}

/// Parser of lines with these columns.
pub(crate) struct ColumnParser {
    layout: ColumnLayout,
    name: String,
    notes: Vec<String>,
    /// First unknown value of `op`, and the number of them.
    unknown_ops: Option<(String, u64)>,
    has_digit_ops: bool,
    /// First length that is no multiple of a sector, in a trace with offsets in sectors.
    odd_length: Option<u64>,
    /// Number of records with more columns than the heading.
    wide_records: u64,
}

impl ColumnParser {
    /// Creates a parser. `notes` come from the heading.
    pub(crate) fn new(layout: ColumnLayout, notes: Vec<String>) -> Self {
        let name = String::new();
        Self {
            layout,
            name,
            notes,
            unknown_ops: None,
            has_digit_ops: false,
            odd_length: None,
            wide_records: 0,
        }
    }

    fn op(&mut self, text: &str) -> Result<Option<TraceOp>, String> {
        let code = self.layout.op_code;
        self.has_digit_ops |= operation::is_guess(text, code);
        let op = operation::parse(text, code)?;
        if op.is_none() && !operation::is_known(text, code) {
            let (_, count) = self.unknown_ops.get_or_insert_with(|| (short(text).to_owned(), 0));
            *count += 1;
        }
        Ok(op)
    }

    fn at_ns(&mut self, text: &str) -> Result<u64, String> {
        if self.layout.time_unit_ns == 0 {
            let (unit_ns, note) = unit_of(text)?;
            self.layout.time_unit_ns = unit_ns;
            self.notes.extend(note);
        }
        time_ns("time", text, self.layout.time_unit_ns)
    }

    /// Returns an error for unbalanced quotes, if they matter.
    fn check_quotes(&self, wrong: Option<usize>, columns: usize) -> Result<(), String> {
        let Some(column) = wrong else { return Ok(()) };
        if columns == self.layout.columns && !self.layout.used().contains(&column) {
            return Ok(());
        }
        Err(format!("column {}: unbalanced quotes", column + 1))
    }
}

impl LineParser for ColumnParser {
    fn parse(&mut self, line: &str, files: &mut FileTable) -> Result<Option<RawRecord>, String> {
        let mut fields = Vec::with_capacity(8);
        let wrong = split(line, self.layout.separator, &mut fields);
        self.check_quotes(wrong, fields.len())?;
        let layout = self.layout;
        let op = match layout.op {
            Some(column) => match self.op(field(&fields, column, "op")?)? {
                Some(op) => op,
                None => return Ok(None),
            },
            None => TraceOp::Read,
        };
        let at_ns = self.at_ns(field(&fields, layout.time, "time")?)?;
        let offset = in_bytes(&fields, "offset", layout.offset, layout.offset_unit)?;
        let length = in_bytes(&fields, "length", layout.length, layout.length_unit)?;
        if layout.offset_unit > layout.length_unit && length % layout.offset_unit != 0 {
            self.odd_length = self.odd_length.or(Some(length));
        }
        let thread = match layout.thread {
            Some(column) => thread_of(field(&fields, column, "thread")?),
            None => 0,
        };
        let is_mapped = match layout.mapped {
            Some(column) => is_true("mapped", field(&fields, column, "mapped")?)?,
            None => false,
        };
        name_of(&fields, &layout, &mut self.name)?;
        // A heading says how many there are.
        let is_wide = layout.columns > 0
            && fields.iter().skip(layout.columns).any(|field| !field.trim().is_empty());
        self.wide_records += u64::from(is_wide);
        let file = files.number(&self.name)?;
        Ok(Some(RawRecord { at_ns, thread, file, op, offset, length, is_mapped }))
    }

    /// True unless a line may begin with a name.
    fn has_comments(&self) -> bool {
        self.layout.file[0] != Some(0)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        if self.has_digit_ops {
            notes.push("op: 0 is read as a read, 1 as a write".to_owned());
        }
        if let Some((first, count)) = &self.unknown_ops {
            notes.push(format!(
                "op: {count} records with unknown operations, such as {first:?}, were left out"
            ));
        }
        if self.wide_records > 0 {
            notes.push(format!(
                "{} records have more columns than the heading: a separator in a name shifts the \
                 following columns; put such names in quotes",
                self.wide_records
            ));
        }
        if let Some(length) = self.odd_length {
            notes.push(format!(
                "length is read as bytes, although {length} is not a multiple of a 512-byte \
                 sector; name a column of sectors sectors"
            ));
        }
        notes
    }
}

/// Returns the unit of times whose heading does not say it, from the first of them, and a note if
/// that is a guess. Times since 1970, or 1601, are some 10^9 s and 10^17 times 100 ns today.
fn unit_of(text: &str) -> Result<(u64, Option<String>), String> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = whole.trim_start_matches('0').len();
    let (unit_ns, name) = match digits {
        0..=11 if part.is_empty() => (1_000_000_000, "seconds"),
        0..=11 => return Ok((1_000_000_000, None)),
        12..=14 => (1_000_000, "milliseconds"),
        15..=17 => (1_000, "microseconds"),
        // From 1970 to 2097.
        18 if ("116444736000000000".."156600000000000000").contains(&whole) => {
            (100, "100 ns since 1601 (filetime)")
        }
        19 => (1, "nanoseconds"),
        _ => {
            let text = short(text);
            return Err(format!(
                "time: the unit of {text:?} is unknown: name the column time_us, .."
            ));
        }
    };
    let text = short(text);
    Ok((
        unit_ns,
        Some(format!(
            "time: the heading has no unit, and {text} is read as {name}; name the column \
             time_us, time_ms .."
        )),
    ))
}

/// Returns an id as a thread number. Ids other than 32-bit numbers are hashed.
pub(super) fn thread_of(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.parse().unwrap_or_else(|_| text.bytes().fold(0x811c_9dc5, step))
}

fn is_true(name: &str, text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "y" | "t" => Ok(true),
        "0" | "false" | "no" | "n" | "f" | "" => Ok(false),
        _ => Err(format!("{name}: {:?} is neither 1 nor 0", short(text))),
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

/// Writes the file's name to `name`: fields joined by a dot, or a word and a number.
fn name_of(
    fields: &[Cow<'_, str>],
    layout: &ColumnLayout,
    name: &mut String,
) -> Result<(), String> {
    name.clear();
    for column in layout.file.into_iter().flatten() {
        name.push_str(if name.is_empty() { layout.file_prefix } else { "." });
        let part = field(fields, column, "file")?;
        let is_escaped = layout.has_escapes && part.contains('%');
        if is_escaped { name.push_str(&unescaped(part)) } else { name.push_str(part) }
    }
    if name.is_empty() {
        name.push_str("disk");
    }
    Ok(())
}
