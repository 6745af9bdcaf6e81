//! A record of a trace: one request, as every format can say it.
//!
//! In:    fields that a format has parsed.
//! Out:   a checked record.
//! Never: an offset whose end overflows a file's length.

use foreread_core::units::{MAX_FILE_BYTES, Nanos};

use crate::file_table::FileNo;

/// One request of a trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceRecord {
    /// The time since the first record of the trace.
    pub at: Nanos,
    /// The thread that made the request; 0 where the format does not say.
    pub thread: u32,
    /// The file or device.
    pub file: FileNo,
    /// What was requested.
    pub op: TraceOp,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes, at least 1.
    pub length: u64,
    /// Whether it was an access to mapped memory.
    pub is_mapped: bool,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TraceOp {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// Where a trace was taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TraceLevel {
    /// At a block device: below the page cache and its read-ahead, which have changed the requests.
    Block,
    /// At the system calls of a program, or of objects in front of a cache.
    File,
}

impl TraceLevel {
    /// `block` or `file`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::File => "file",
        }
    }
}

/// The largest request in bytes, 1 GiB. No device takes a larger one, and a replay of a damaged
/// length must end.
pub const MAX_LENGTH: u64 = 1 << 30;

/// Fields of a record before they are checked. Times are absolute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord {
    pub(crate) at_ns: u64,
    pub(crate) thread: u32,
    pub(crate) file: FileNo,
    pub(crate) op: TraceOp,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) is_mapped: bool,
}

impl RawRecord {
    /// Checks offset and length. A request of no bytes is no record.
    pub(crate) fn checked(self) -> Result<Option<Self>, String> {
        if self.length == 0 {
            return Ok(None);
        }
        if self.length > MAX_LENGTH {
            return Err(format!("length: {} bytes are more than 1G", self.length));
        }
        let end = self.offset.checked_add(self.length);
        if end.is_none_or(|end| end > MAX_FILE_BYTES.0) {
            return Err(format!("offset: {} is beyond the end of any file", self.offset));
        }
        Ok(Some(self))
    }
}

impl TraceOp {
    /// The word in fio's logs and in CSV.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}
