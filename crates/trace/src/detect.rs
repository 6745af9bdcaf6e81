//! Which format a trace has, by its first bytes.
//!
//! In:    the first bytes, decompressed.
//! Out:   the format; for CSV with a heading, its columns.
//! Never: a look at the name of the file.

use crate::format::columns::of_heading;
use crate::format::{TraceFormat, blkparse, fio, own, packed};

/// Returns the format of a trace that begins so.
pub(crate) fn detect(head: &[u8]) -> Option<TraceFormat> {
    if head.starts_with(own::MAGIC) {
        return Some(TraceFormat::Foreread);
    }
    if let Some(line) = first_line(head) {
        return of_line(line);
    }
    packed::detect(head).map(|format| match format {
        packed::PackedFormat::VscsiV1 => TraceFormat::VscsiV1,
        packed::PackedFormat::VscsiV2 => TraceFormat::VscsiV2,
        packed::PackedFormat::OracleGeneral => TraceFormat::OracleGeneral,
    })
}

/// The first line that says something, if these are the first bytes of a text.
pub(crate) fn first_line(head: &[u8]) -> Option<&str> {
    let is_text = |byte: &u8| *byte >= b' ' || b"\t\r\n".contains(byte);
    if !head.iter().all(is_text) {
        return None;
    }
    let lines = head.split(|byte| *byte == b'\n');
    let mut lines = lines.filter_map(|line| std::str::from_utf8(line).ok().map(str::trim));
    lines.find(|line| !is_comment(line))
}

/// Whether a line says nothing.
pub(crate) fn is_comment(line: &str) -> bool {
    line.is_empty() || line.starts_with('#')
}

fn of_line(line: &str) -> Option<TraceFormat> {
    if line == fio::HEAD_V2 {
        return Some(TraceFormat::FioV2);
    }
    if line == fio::HEAD_V3 {
        return Some(TraceFormat::FioV3);
    }
    if blkparse::action_of(line).is_some() {
        return Some(TraceFormat::Blkparse);
    }
    if of_heading(line).is_some() {
        return Some(TraceFormat::Csv);
    }
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    if words.len() == 5 && words.iter().all(is_number) {
        return Some(TraceFormat::Mqsim);
    }
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let is_op = |text: &str| matches!(text, "R" | "W");
    match fields[..] {
        [_, _, _, op, ..] if fields.len() == 7 && matches!(op, "Read" | "Write") => {
            Some(TraceFormat::Msr)
        }
        [_, _, op, ..] if fields.len() == 6 && is_op(op) => Some(TraceFormat::Systor),
        [_, op, ..] if fields.len() == 5 && is_op(op) => Some(TraceFormat::Alibaba),
        [..] if fields.len() == 5 && fields.iter().all(is_number) => Some(TraceFormat::Tencent),
        _ => None,
    }
}
