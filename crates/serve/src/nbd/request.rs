//! Requests: parsed from 28 bytes, and checked against the export and the negotiated features.
//! Offsets past the end, lengths of zero and unknown flags are refused here.

use super::handshake::Negotiated;
use super::wire::{
    CMD_BLOCK_STATUS, CMD_CACHE, CMD_DISC, CMD_FLAG_DF, CMD_FLAG_FUA, CMD_FLAG_NO_HOLE,
    CMD_FLAG_REQ_ONE, CMD_FLUSH, CMD_READ, CMD_TRIM, CMD_WRITE, CMD_WRITE_ZEROES, MAX_PAYLOAD,
    REQUEST_MAGIC,
};
use super::{NbdErrno, ProtocolError, be_u16, be_u32, be_u64};

/// A request as it is sent, not checked yet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NbdRequest {
    /// Flags of the request: `CMD_FLAG_*`.
    pub flags: u16,
    /// Command number: `CMD_*`.
    pub command: u16,
    /// The number that its reply carries.
    pub cookie: u64,
    /// Offset in the export.
    pub offset: u64,
    /// The number of bytes.
    pub len: u32,
}

/// A valid request's command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NbdCommand {
    /// Read the range.
    Read {
        /// The reply must be a single chunk.
        whole: bool,
    },
    /// Write the payload that follows the request.
    Write {
        /// Reply only once the bytes are durable.
        fua: bool,
    },
    /// Make all completed writes durable.
    Flush,
    /// Discard these bytes.
    Trim {
        /// Reply only once this is durable.
        fua: bool,
    },
    /// Read these bytes ahead.
    Cache,
    /// Write zeroes.
    WriteZeroes {
        /// Reply only once this is durable.
        fua: bool,
        /// A hole does as well.
        may_unmap: bool,
    },
    /// Reports which parts of the range are allocated.
    BlockStatus {
        /// One extent is enough.
        one: bool,
    },
    /// End the connection.
    Disconnect,
}

impl NbdRequest {
    /// The length of a request in bytes.
    pub const LEN: usize = 28;

    /// Parses the request at the start of `bytes`; None if they are too short.
    ///
    /// # Errors
    ///
    /// If the magic number is missing: the start of the next request is then unknown.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, ProtocolError> {
        if bytes.len() >= 4 && be_u32(bytes) != REQUEST_MAGIC {
            return Err(ProtocolError::Magic { of: "request", found: be_u32(bytes).into() });
        }
        let Some(bytes) = bytes.first_chunk::<{ Self::LEN }>() else { return Ok(None) };
        Ok(Some(Self {
            flags: be_u16(&bytes[4..]),
            command: be_u16(&bytes[6..]),
            cookie: be_u64(&bytes[8..]),
            offset: be_u64(&bytes[16..]),
            len: be_u32(&bytes[24..]),
        }))
    }

    /// Returns the request in the protocol's format.
    #[must_use]
    pub fn bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }

    /// Returns the length of the payload after the request, which is not validated here.
    #[must_use]
    pub fn payload(&self) -> u32 {
        if self.command == CMD_WRITE { self.len } else { 0 }
    }

    /// Returns the offset after the last byte of the request's range.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len.into())
    }

    /// Validates the request against the negotiated export and returns its command.
    ///
    /// # Errors
    ///
    /// The number to answer with, if it makes no sense, or is not allowed.
    pub fn check(&self, agreed: &Negotiated) -> Result<NbdCommand, NbdErrno> {
        let fua = self.flags & CMD_FLAG_FUA != 0;
        let (command, flags) = match self.command {
            CMD_READ if agreed.structured => {
                (NbdCommand::Read { whole: self.flags & CMD_FLAG_DF != 0 }, CMD_FLAG_DF)
            }
            CMD_READ => (NbdCommand::Read { whole: true }, 0),
            CMD_WRITE => (NbdCommand::Write { fua }, 0),
            CMD_DISC => return Ok(NbdCommand::Disconnect),
            CMD_FLUSH => (NbdCommand::Flush, 0),
            CMD_TRIM => (NbdCommand::Trim { fua }, 0),
            CMD_CACHE => (NbdCommand::Cache, 0),
            CMD_WRITE_ZEROES => {
                let may_unmap = self.flags & CMD_FLAG_NO_HOLE == 0;
                (NbdCommand::WriteZeroes { fua, may_unmap }, CMD_FLAG_NO_HOLE)
            }
            CMD_BLOCK_STATUS if agreed.base_allocation => {
                let one = self.flags & CMD_FLAG_REQ_ONE != 0;
                (NbdCommand::BlockStatus { one }, CMD_FLAG_REQ_ONE)
            }
            _ => return Err(NbdErrno::Inval),
        };
        // FUA is allowed everywhere: clients are known to send it with anything.
        if self.flags & !(flags | CMD_FLAG_FUA) != 0 {
            return Err(NbdErrno::Inval);
        }
        self.check_range(command, agreed).map(|()| command)
    }

    fn check_range(&self, command: NbdCommand, agreed: &Negotiated) -> Result<(), NbdErrno> {
        let changes = match command {
            NbdCommand::Write { .. } | NbdCommand::Trim { .. } | NbdCommand::WriteZeroes { .. } => {
                true
            }
            NbdCommand::Flush => {
                let is_nowhere = self.offset == 0 && self.len == 0;
                return if is_nowhere { Ok(()) } else { Err(NbdErrno::Inval) };
            }
            NbdCommand::Disconnect => return Ok(()),
            NbdCommand::Read { .. } | NbdCommand::Cache | NbdCommand::BlockStatus { .. } => false,
        };
        if changes && agreed.read_only {
            return Err(NbdErrno::Perm);
        }
        let has_payload = matches!(command, NbdCommand::Read { .. } | NbdCommand::Write { .. });
        if self.len == 0 || (has_payload && self.len > MAX_PAYLOAD) {
            return Err(NbdErrno::Inval);
        }
        let end = self.offset.checked_add(self.len.into());
        if end.is_none_or(|end| end > agreed.size) {
            let is_write =
                matches!(command, NbdCommand::Write { .. } | NbdCommand::WriteZeroes { .. });
            return Err(if is_write { NbdErrno::NoSpc } else { NbdErrno::Inval });
        }
        Ok(())
    }
}
