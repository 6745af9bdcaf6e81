//! The NBD protocol: bytes in, values and bytes out.
//!
//! In:    bytes of a peer, split anywhere.
//! Out:   requests and replies as values, and their bytes.
//! Never: a socket, an engine, an allocation sized by the peer.
//!
//! ```text
//!   server                                                  client
//!   handshake::Handshake  ---- greeting ------------------>
//!                         <--- flags, options ------------- peer::option
//!                         ---- option replies ------------> peer::OptionReply
//!   request::NbdRequest   <--- requests, payloads --------- NbdRequest::bytes
//!   reply                 ---- replies, chunks -----------> peer::ReplyHead
//! ```
//!
//! Fixed newstyle, with structured replies and the metadata context `base:allocation`.

pub mod handshake;
mod options;
pub mod peer;
pub mod reply;
pub mod request;
pub mod wire;

use std::error::Error;
use std::fmt;

/// Violation of the protocol that ends a connection: the position in the stream is lost, or a limit
/// is exceeded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A message does not begin with its magic number.
    Magic {
        /// Kind of message.
        of: &'static str,
        /// Number found instead.
        found: u64,
    },
    /// The client's handshake flags have undefined bits.
    Flags(u32),
    /// An option or reply is longer than its limit.
    TooBig {
        /// Length in its header.
        len: u32,
    },
    /// `NBD_OPT_EXPORT_NAME`, which has no error reply, names an unknown export.
    NoSuchExport,
    /// A client without fixed newstyle sends an option that needs a reply.
    NotFixed,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic { of, found } => write!(f, "not a valid {of}: it begins with {found:#x}"),
            Self::Flags(flags) => write!(f, "unknown flags {flags:#x}"),
            Self::TooBig { len } => write!(f, "{len} bytes in one message"),
            Self::NoSuchExport => write!(f, "an unknown export"),
            Self::NotFixed => write!(f, "an option before fixed newstyle was negotiated"),
        }
    }
}

impl Error for ProtocolError {}

/// Error numbers of the protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum NbdErrno {
    /// The export is read-only.
    Perm = 1,
    /// The device failed.
    Io = 5,
    /// Out of memory.
    NoMem = 12,
    /// The request is invalid.
    Inval = 22,
    /// Past the end of the export, or of the device.
    NoSpc = 28,
    /// Too long to be answered in one piece.
    Overflow = 75,
    /// The flags are not supported.
    NotSup = 95,
    /// The server stops.
    Shutdown = 108,
}

/// Returns the number at the start of `bytes`, which must be long enough.
fn be_u16(bytes: &[u8]) -> u16 {
    u16::from_be_bytes(
        *bytes.first_chunk().expect("the caller has checked that two bytes are there"),
    )
}

fn be_u32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(
        *bytes.first_chunk().expect("the caller has checked that four bytes are there"),
    )
}

fn be_u64(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(
        *bytes.first_chunk().expect("the caller has checked that eight bytes are there"),
    )
}

/// Converts the length of a message; all lengths are far below the limit.
fn len_u32(len: usize) -> u32 {
    u32::try_from(len).expect("texts of the protocol are far shorter than 4 GiB")
}
