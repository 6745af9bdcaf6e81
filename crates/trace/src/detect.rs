//! Detects the format of a trace by its first bytes, not by the file's name.

use std::borrow::Cow;

use crate::format::heading::{Heading, of_heading};
use crate::format::{TraceFormat, blkparse, fio, own, packed};
use crate::text_lines::{text_of, trimmed, without_mark};
use crate::unsupported;

/// Returns the format of a trace with these first bytes.
///
/// # Errors
///
/// The actual type of the file, if it is known.
pub(crate) fn detect(head: &[u8]) -> Result<TraceFormat, String> {
    if head.starts_with(own::MAGIC) {
        return Ok(TraceFormat::Foreread);
    }
    if let Some((_, heading)) = commented_heading(head) {
        return Ok(heading.format);
    }
    let line = first_line(head);
    if let Some(format) = line.as_deref().map(of_line).transpose()?.flatten() {
        return Ok(format);
    }
    let is_text = |byte: &u8| *byte >= b' ' || b"\t\r\n".contains(byte);
    let packed = if head.iter().all(is_text) { None } else { packed::detect(head) };
    let format = packed.map(|format| match format {
        packed::PackedFormat::VscsiV1 => TraceFormat::VscsiV1,
        packed::PackedFormat::VscsiV2 => TraceFormat::VscsiV2,
        packed::PackedFormat::OracleGeneral => TraceFormat::OracleGeneral,
    });
    format.ok_or_else(|| {
        let known = line.as_deref().and_then(unsupported::by_line);
        known.or_else(|| packed::single_record(head)).unwrap_or_else(|| {
            let names = TraceFormat::ALL.map(TraceFormat::name).join(", ");
            format!("is not in a known format: {names}")
        })
    })
}

/// Returns the first line that is no comment, if these may be the first bytes of a text. Names in
/// it may contain any byte except 0.
pub(crate) fn first_line(head: &[u8]) -> Option<Cow<'_, str>> {
    let lines = without_mark(head).split(|byte| *byte == b'\n');
    let mut lines = lines.map(|line| text_of(trimmed(line)));
    lines.find(|line| !is_comment(line)).filter(|line| !line.contains('\0'))
}

/// Returns the heading in the last comment above the first line, as awk and NumPy write it, if it
/// has as many columns as that line.
pub(crate) fn commented_heading(head: &[u8]) -> Option<(String, Heading)> {
    let first = first_line(head)?;
    let lines = without_mark(head).split(|byte| *byte == b'\n');
    let lines = lines.map(|line| text_of(trimmed(line)));
    let comments = lines.take_while(|line| is_comment(line)).filter(|line| line.contains('#'));
    let comment =
        comments.last()?.trim_start().trim_start_matches('#').trim_matches(' ').to_owned();
    let heading = of_heading(&comment).ok().flatten()?;
    heading.fits(&first).then_some((comment, heading))
}

/// Returns true if a line is empty or a comment.
pub(crate) fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

fn of_line(line: &str) -> Result<Option<TraceFormat>, String> {
    if line == fio::HEAD_V2 {
        return Ok(Some(TraceFormat::FioV2));
    }
    if line == fio::HEAD_V3 {
        return Ok(Some(TraceFormat::FioV3));
    }
    if blkparse::action_of(line).is_some() {
        return Ok(Some(TraceFormat::Blkparse));
    }
    let of_data = of_columns(line);
    if of_data.is_some() {
        return Ok(of_data);
    }
    Ok(of_heading(line)?.map(|heading| heading.format))
}

fn of_columns(line: &str) -> Option<TraceFormat> {
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    if words.len() == 5 && words.iter().all(is_number) {
        return Some(TraceFormat::Mqsim);
    }
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let is_op = |text: &str| {
        let names = ["r", "w", "read", "write"];
        names.iter().any(|name| text.eq_ignore_ascii_case(name))
    };
    let is_decimal =
        |text: &str| text.contains('.') && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match fields[..] {
        [at, _, _, op, ..] if fields.len() == 7 && is_op(op) && is_number(&at) => {
            Some(TraceFormat::Msr)
        }
        [asu, lba, size, op, at, ..]
            if is_op(op) && [asu, lba, size].iter().all(is_number) && is_decimal(at) =>
        {
            Some(TraceFormat::Spc)
        }
        [_, _, op, ..] if fields.len() == 6 && is_op(op) => Some(TraceFormat::Systor),
        [_, op, ..] if fields.len() == 5 && is_op(op) => Some(TraceFormat::Alibaba),
        [..] if fields.len() == 5 && fields.iter().all(is_number) => Some(TraceFormat::Tencent),
        _ => None,
    }
}
