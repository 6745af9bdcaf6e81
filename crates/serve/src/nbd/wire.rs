//! Constants of the NBD protocol, under their published names without `NBD_`.
//!
//! No other file writes these numbers.

/// `NBDMAGIC`: first field of the server greeting.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: second field of the greeting and magic of each option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Magic of an option reply.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Magic of a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Magic of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Magic of a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flag of both sides: options get replies.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag of both sides: no padding after the export's flags.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;

/// Selects an export; the protocol has no error reply for this option.
pub const OPT_EXPORT_NAME: u32 = 1;
/// Ends the session.
pub const OPT_ABORT: u32 = 2;
/// Lists the exports.
pub const OPT_LIST: u32 = 3;
/// Requests TLS.
pub const OPT_STARTTLS: u32 = 5;
/// Queries an export.
pub const OPT_INFO: u32 = 6;
/// Queries an export and selects it.
pub const OPT_GO: u32 = 7;
/// Negotiates structured replies.
pub const OPT_STRUCTURED_REPLY: u32 = 8;
/// Lists the metadata contexts.
pub const OPT_LIST_META_CONTEXT: u32 = 9;
/// Selects metadata contexts.
pub const OPT_SET_META_CONTEXT: u32 = 10;
/// Control request as text; a private extension of foreread.
pub const OPT_CONTROL: u32 = 0x6672_0001;

/// Acknowledgement.
pub const REP_ACK: u32 = 1;
/// An export.
pub const REP_SERVER: u32 = 2;
/// Information about an export.
pub const REP_INFO: u32 = 3;
/// A metadata context.
pub const REP_META_CONTEXT: u32 = 4;
/// Reply to a control request, as text.
pub const REP_CONTROL: u32 = 0x6672_0001;
/// Unsupported option.
pub const REP_ERR_UNSUP: u32 = 0x8000_0001;
/// Option forbidden by policy.
pub const REP_ERR_POLICY: u32 = 0x8000_0002;
/// Malformed option.
pub const REP_ERR_INVALID: u32 = 0x8000_0003;
/// Unknown export.
pub const REP_ERR_UNKNOWN: u32 = 0x8000_0006;
/// Oversized option.
pub const REP_ERR_TOO_BIG: u32 = 0x8000_0009;

/// Export size and flags.
pub const INFO_EXPORT: u16 = 0;
/// Canonical name of the export.
pub const INFO_NAME: u16 = 1;
/// Description of the export.
pub const INFO_DESCRIPTION: u16 = 2;
/// Minimum, preferred and maximum block size.
pub const INFO_BLOCK_SIZE: u16 = 3;

/// The flags field is valid.
pub const TRANSMIT_HAS_FLAGS: u16 = 1 << 0;
/// The export is read-only.
pub const TRANSMIT_READ_ONLY: u16 = 1 << 1;
/// Flush is supported.
pub const TRANSMIT_SEND_FLUSH: u16 = 1 << 2;
/// FUA is supported.
pub const TRANSMIT_SEND_FUA: u16 = 1 << 3;
/// Trim is supported.
pub const TRANSMIT_SEND_TRIM: u16 = 1 << 5;
/// Writes of zeroes are supported.
pub const TRANSMIT_SEND_WRITE_ZEROES: u16 = 1 << 6;
/// The DF flag is supported.
pub const TRANSMIT_SEND_DF: u16 = 1 << 7;
/// A flush on one connection covers the writes of all connections.
pub const TRANSMIT_CAN_MULTI_CONN: u16 = 1 << 8;
/// Cache requests are supported.
pub const TRANSMIT_SEND_CACHE: u16 = 1 << 10;

/// Reads.
pub const CMD_READ: u16 = 0;
/// Writes; the payload follows the request.
pub const CMD_WRITE: u16 = 1;
/// Disconnects.
pub const CMD_DISC: u16 = 2;
/// Flushes all completed writes to the device.
pub const CMD_FLUSH: u16 = 3;
/// Discards a range.
pub const CMD_TRIM: u16 = 4;
/// Announces a later read of a range.
pub const CMD_CACHE: u16 = 5;
/// Writes zeroes.
pub const CMD_WRITE_ZEROES: u16 = 6;
/// Lists data and holes in a range.
pub const CMD_BLOCK_STATUS: u16 = 7;

/// Reply only once the data is durable.
pub const CMD_FLAG_FUA: u16 = 1 << 0;
/// Write zeroes without punching a hole.
pub const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
/// Do not fragment the reply.
pub const CMD_FLAG_DF: u16 = 1 << 2;
/// Return a single extent.
pub const CMD_FLAG_REQ_ONE: u16 = 1 << 3;
/// Write zeroes only if faster than a plain write. Unsupported: the server cannot promise it.
pub const CMD_FLAG_FAST_ZERO: u16 = 1 << 4;

/// Marks the last chunk of a reply.
pub const REPLY_FLAG_DONE: u16 = 1 << 0;
/// Chunk without payload.
pub const REPLY_NONE: u16 = 0;
/// Data at an offset.
pub const REPLY_OFFSET_DATA: u16 = 1;
/// Zeroes at an offset.
pub const REPLY_OFFSET_HOLE: u16 = 2;
/// Extents.
pub const REPLY_BLOCK_STATUS: u16 = 5;
/// Error of the whole request.
pub const REPLY_ERROR: u16 = 0x8001;
/// An error at an offset.
pub const REPLY_ERROR_OFFSET: u16 = 0x8002;

/// Extent that occupies no space on the device.
pub const STATE_HOLE: u32 = 1 << 0;
/// Extent that reads as zeroes.
pub const STATE_ZERO: u32 = 1 << 1;

/// The only supported metadata context.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Identifier of this context in replies.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// Minimum block size: requests of any alignment and length are accepted.
pub const MIN_BLOCK: u32 = 1;
/// Preferred block size: whole pages.
pub const BEST_BLOCK: u32 = 4096;
/// Maximum bytes of one read or write.
pub const MAX_PAYLOAD: u32 = 32 << 20;
/// Maximum length of an export name in bytes.
pub const MAX_NAME: usize = 4096;
