//! A record of a trace: one request with the fields common to all formats.

use foreread_core::units::{MAX_FILE_BYTES, Nanos};

use crate::file_table::FileNo;

/// One request of a trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceRecord {
    /// Time since the first record of the trace.
    pub at: Nanos,
    /// Thread that made the request; 0 if unknown.
    pub thread: u32,
    /// File or device.
    pub file: FileNo,
    /// Kind of request.
    pub op: TraceOp,
    /// First byte.
    pub offset: u64,
    /// Number of bytes, at least 1.
    pub length: u64,
    /// The request accessed mapped memory.
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

/// Level at which a trace was taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TraceLevel {
    /// At a block device: below the page cache and its read-ahead, which have changed the requests.
    Block,
    /// At the system calls of a program, or of objects in front of a cache.
    File,
}

impl TraceLevel {
    /// Returns `block` or `file`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::File => "file",
        }
    }
}

/// Largest request in bytes, 1 GiB. No device takes a larger one, and the limit bounds the replay
/// of a damaged length.
pub const MAX_LENGTH: u64 = 1 << 30;

/// Fields of a record before validation. Times are absolute.
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
    /// Validates offset and length. Requests of zero bytes give None.
    pub(crate) fn checked(self) -> Result<Option<Self>, String> {
        if self.length == 0 {
            return Ok(None);
        }
        if self.length > MAX_LENGTH {
            return Err(format!("length: {} bytes are more than 1G", self.length));
        }
        let end = self.offset.checked_add(self.length);
        if end.is_none_or(|end| end > MAX_FILE_BYTES.0) {
            return Err(format!("offset: {} is past the largest file size", self.offset));
        }
        Ok(Some(self))
    }
}

impl TraceOp {
    /// Returns the word in fio's logs and in CSV.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}
