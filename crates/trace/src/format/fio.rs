//! fio's `iolog`, versions 2 and 3.
//!
//! Syncs, trims and opens are no requests. fio has no escapes: names are taken literally.
//!
//! ```text
//!   fio version 2 iolog             fio version 3 iolog
//!   /dev/vda add                    0 /dev/vda add
//!   /dev/vda read 4096 8192         211 /dev/vda read 4096 8192      time in us since the start
//!   /dev/vda wait 5000 0            5211 /dev/vda close
//! ```
//!
//! Format: fio's documentation, "Trace file format". Version 3 writes microseconds.

use super::LineParser;
use crate::field::{short, time_ns, whole};
use crate::file_table::FileTable;
use crate::record::{RawRecord, TraceOp};

/// First line of a version 2 log.
pub(crate) const HEAD_V2: &str = "fio version 2 iolog";

/// First line of a version 3 log.
pub(crate) const HEAD_V3: &str = "fio version 3 iolog";

/// Parser of either version.
pub(crate) struct FioParser {
    has_times: bool,
    /// Sum of the waits, for version 2.
    waited_ns: u64,
}

impl FioParser {
    pub(crate) fn new(has_times: bool) -> Self {
        Self { has_times, waited_ns: 0 }
    }
}

impl LineParser for FioParser {
    fn parse(&mut self, line: &str, files: &mut FileTable) -> Result<Option<RawRecord>, String> {
        if line == HEAD_V2 || line == HEAD_V3 {
            return Ok(None);
        }
        let mut fields = line.split_ascii_whitespace();
        let mut field = |name: &str| fields.next().ok_or_else(|| format!("{name}: missing"));
        let at_ns = match self.has_times {
            true => time_ns("time", field("time")?, 1000)?,
            false => self.waited_ns,
        };
        let (name, action) = (field("file")?, field("action")?);
        let op = match action {
            "read" => TraceOp::Read,
            "write" => TraceOp::Write,
            "wait" => {
                let wait_ns = time_ns("wait", field("wait")?, 1000)?;
                self.waited_ns = at_ns.saturating_add(wait_ns);
                return Ok(None);
            }
            "add" | "open" | "close" | "sync" | "datasync" | "trim" => return Ok(None),
            other => return Err(format!("action: {:?} is not one of fio's", short(other))),
        };
        let offset = whole("offset", field("offset")?)?;
        let length = whole("length", field("length")?)?;
        let file = files.number(name)?;
        Ok(Some(RawRecord { at_ns, thread: 0, file, op, offset, length, is_mapped: false }))
    }

    /// Returns whether lines may be comments: a line of version 2 begins with a name.
    fn has_comments(&self) -> bool {
        self.has_times
    }
}

/// Returns true if a log can hold a name: fio reads it as a word of at most 255 bytes.
pub(crate) fn holds(name: &str) -> bool {
    let is_blank = |byte: u8| byte.is_ascii_whitespace() || byte == 0x0b || byte == 0;
    name.len() <= MAX_NAME && !name.bytes().any(is_blank)
}

const MAX_NAME: usize = 255;
