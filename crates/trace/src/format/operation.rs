//! Parses the operation column.

use crate::field::short;
use crate::format::packed::scsi_op;
use crate::record::TraceOp;

/// Encoding of read and write in a column.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OpCode {
    /// A word: `read`, `pwrite64`, or R or W with the flags of blktrace.
    Word,
    /// 0, or false, is a read.
    ZeroReads,
    /// 1, or true, is a read.
    OneReads,
    /// The hexadecimal code of a SCSI command, or as `Any`.
    Scsi,
    /// A word, or a digit: 0 is a read.
    Any,
}

/// Parses an operation. Returns None for flushes, trims and the like, and for unknown ones.
///
/// # Errors
///
/// If it is no operation at all.
pub(crate) fn parse(text: &str, code: OpCode) -> Result<Option<TraceOp>, String> {
    let wrong = || format!("op: {:?} is neither a read nor a write", short(text));
    match code {
        OpCode::Word => word(text).ok_or_else(wrong),
        OpCode::ZeroReads | OpCode::OneReads => {
            let is_zero = match text.to_ascii_lowercase().as_str() {
                "0" | "false" | "f" | "no" | "n" => true,
                "1" | "true" | "t" | "yes" | "y" => false,
                _ => return Err(wrong()),
            };
            let is_read = is_zero == (code == OpCode::ZeroReads);
            Ok(Some(if is_read { TraceOp::Read } else { TraceOp::Write }))
        }
        OpCode::Any => match text {
            "0" => Ok(Some(TraceOp::Read)),
            "1" => Ok(Some(TraceOp::Write)),
            _ => word(text).ok_or_else(wrong),
        },
        OpCode::Scsi => match u8::from_str_radix(text, 16) {
            Ok(code) if text.len() > 1 => Ok(scsi_op(u16::from(code))),
            _ => parse(text, OpCode::Any),
        },
    }
}

/// Returns true if a digit was interpreted without a rule of the format.
pub(crate) fn is_guess(text: &str, code: OpCode) -> bool {
    matches!(code, OpCode::Any | OpCode::Scsi) && matches!(text, "0" | "1")
}

/// Returns true if a value other than read and write is a known operation.
pub(crate) fn is_known(text: &str, code: OpCode) -> bool {
    if code == OpCode::Scsi
        && text.len() > 1
        && let Ok(code) = u8::from_str_radix(text, 16)
    {
        return OTHER_SCSI.contains(&code);
    }
    let lower = text.to_ascii_lowercase();
    OTHERS.contains(&lower.as_str()) || has_no_data(&lower)
}

/// Returns true for commands that change blocks without sending their contents.
fn has_no_data(lower: &str) -> bool {
    ["zero", "same", "unmap", "discard", "trim"].iter().any(|name| lower.contains(name))
}

fn word(text: &str) -> Option<Option<TraceOp>> {
    let lower = text.to_ascii_lowercase();
    if !lower.bytes().next()?.is_ascii_alphabetic() {
        return None;
    }
    if has_no_data(&lower) {
        return Some(None);
    }
    let is_letter_and_flags = |letter| {
        lower.strip_prefix(letter).is_some_and(|flags| flags.bytes().all(|it| FLAGS.contains(&it)))
    };
    let has = |name| lower.contains(name);
    let is_read = is_letter_and_flags('r')
        || lower.starts_with("rd")
        || matches!(lower.as_str(), "get" | "gets" | "load")
        || has("read") && !NOT_OF_DATA.iter().any(|name| lower.contains(name));
    let is_write = is_letter_and_flags('w')
        || lower.starts_with("wr")
        || matches!(lower.as_str(), "wt" | "set" | "put" | "store")
        || has("write");
    Some(match (is_read, is_write) {
        (true, false) => Some(TraceOp::Read),
        (false, true) => Some(TraceOp::Write),
        _ => None,
    })
}

/// Flags after blktrace's R or W: force unit access, ahead, sync, metadata, barrier.
const FLAGS: [u8; 5] = *b"fasmb";

/// Words with `read` in them that read no contents of a file.
const NOT_OF_DATA: [&str; 6] = ["dir", "link", "attr", "cap", "thread", "ready"];

/// Known operations other than reads and writes.
const OTHERS: [&str; 20] = [
    "flush",
    "f",
    "fua",
    "sync",
    "fsync",
    "fdatasync",
    "datasync",
    "trim",
    "discard",
    "d",
    "unmap",
    "zero",
    "open",
    "close",
    "wait",
    "barrier",
    "stat",
    "seek",
    "none",
    "n",
];

/// TEST UNIT READY, REQUEST SENSE, INQUIRY, MODE SENSE, READ CAPACITY, SYNCHRONIZE CACHE, WRITE
/// SAME, UNMAP, LOG SENSE, PERSISTENT RESERVE, and the like.
const OTHER_SCSI: [u8; 21] = [
    0x00, 0x03, 0x12, 0x15, 0x1a, 0x1b, 0x1e, 0x25, 0x2f, 0x34, 0x35, 0x41, 0x42, 0x4d, 0x55, 0x5a,
    0x5e, 0x5f, 0x91, 0x93, 0x9e,
];
