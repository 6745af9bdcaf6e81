//! Text output of blkparse in its default format.
//!
//! Only the events of one action become records, so that no request counts both when it is queued
//! and when it is issued.
//!
//! ```text
//!   8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
//!   device cpu sequence   seconds       pid  |   |  sector  sectors  command
//!                                       action   rwbs
//! ```
//!
//! Format: blkparse(1). Queued requests (Q) are the file system's; in a trace without them,
//! requests issued to the driver (D) or completed (C) are used instead.

use super::LineParser;
use super::columns::thread_of;
use crate::field::{short, time_ns, whole};
use crate::file_table::FileTable;
use crate::record::{RawRecord, TraceOp};

/// Parser of the events of one action.
pub(crate) struct BlkparseParser {
    action: &'static str,
    has_begun: bool,
    has_ended: bool,
}

impl BlkparseParser {
    /// Creates a parser for a trace with these first lines.
    pub(crate) fn new(head: &str) -> Self {
        let has = |action: &&str| head.lines().any(|line| action_of(line) == Some(*action));
        let action = ["Q", "D", "C"].into_iter().find(has).unwrap_or("Q");
        Self { action, has_begun: false, has_ended: false }
    }
}

/// Returns the action of an event, or None for other lines.
pub(crate) fn action_of(line: &str) -> Option<&str> {
    let mut fields = line.split_ascii_whitespace();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (major, minor) = fields.next()?.split_once(',')?;
    let is_event = is_number(major) && is_number(minor) && is_number(fields.next()?);
    let is_event = is_event && is_number(fields.next()?) && fields.next()?.contains('.');
    let _pid = fields.next().filter(|_| is_event)?;
    fields.next()
}

/// Returns true for the first line of a part of the summary: `CPU3 (8,0):`, `Total (8,0):`.
fn is_summary(line: &str) -> bool {
    let name = line.strip_suffix("):").and_then(|line| line.split_once(" ("));
    name.is_some_and(|(name, _)| {
        let digits = name.strip_prefix("CPU");
        name == "Total" || digits.is_some_and(|all| all.bytes().all(|b| b.is_ascii_digit()))
    })
}

fn begins_with_device(line: &str) -> bool {
    let numbers = line.split_ascii_whitespace().next().and_then(|word| word.split_once(','));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

impl LineParser for BlkparseParser {
    fn parse(&mut self, line: &str, files: &mut FileTable) -> Result<Option<RawRecord>, String> {
        let Some(action) = action_of(line) else {
            // Statistics of processes, the summary, or the rest of a name with a line feed.
            let is_other = self.has_begun && !begins_with_device(line);
            self.has_ended |= is_summary(line);
            if is_other || self.has_ended {
                return Ok(None);
            }
            return Err(format!("{:?} is not an event in blkparse's default format", short(line)));
        };
        if self.has_ended {
            return Err(JOINED.into());
        }
        self.has_begun = true;
        if action != self.action {
            return Ok(None);
        }
        let mut fields = line.split_ascii_whitespace();
        let device = fields.next().unwrap_or_default();
        let at_ns = time_ns("time", fields.nth(2).unwrap_or_default(), 1_000_000_000)?;
        let thread = thread_of(fields.next().unwrap_or_default());
        let rwbs = fields.nth(1).ok_or("rwbs: missing")?;
        // "FWS" is a flush and a write, "D" a discard, "N" no data.
        let op = match rwbs {
            _ if rwbs.contains('D') || rwbs.contains('N') => return Ok(None),
            _ if rwbs.contains('R') => TraceOp::Read,
            _ if rwbs.contains('W') => TraceOp::Write,
            _ => return Ok(None),
        };
        let Some(sector) = fields.next().filter(|text| !text.starts_with(['(', '['])) else {
            return Ok(None);
        };
        let sector = whole("sector", sector)?;
        match fields.next() {
            Some("+") => {}
            // A SCSI command with its bytes, or the completion of a flush: neither has sectors.
            Some(other) if other.starts_with(['(', '[']) => return Ok(None),
            _ => return Err("sectors: expected \"SECTOR + SECTORS\"".into()),
        }
        let sectors = whole("sectors", fields.next().ok_or("sectors: missing")?)?;
        let bytes = |name: &str, sectors: u64| {
            sectors.checked_mul(512).ok_or_else(|| format!("{name}: {sectors} is too large"))
        };
        let (offset, length) = (bytes("sector", sector)?, bytes("sectors", sectors)?);
        let file = files.number(device)?;
        Ok(Some(RawRecord { at_ns, thread, file, op, offset, length, is_mapped: false }))
    }
}

/// Error for an event after the summary.
const JOINED: &str = "an event after the summary: two outputs of blkparse were joined; give them \
                      as two traces";
