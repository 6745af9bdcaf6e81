//! The protocol's numbers.
//!
//! In:    the published protocol.
//! Out:   its constants, by its own names without their `NBD_`.
//! Never: a number that is written anywhere else.

/// `NBDMAGIC`: what a server says first.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: what it says next, and what each option begins with.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// What each answer to an option begins with.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// What each request begins with.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// What each simple reply begins with.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// What each chunk of a structured reply begins with.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Server and client: options have answers.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Server and client: no padding after the export's flags.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;

/// Takes an export, in the way that has no error.
pub const OPT_EXPORT_NAME: u32 = 1;
/// The client leaves.
pub const OPT_ABORT: u32 = 2;
/// Which exports are there.
pub const OPT_LIST: u32 = 3;
/// Encryption.
pub const OPT_STARTTLS: u32 = 5;
/// What an export is like.
pub const OPT_INFO: u32 = 6;
/// The same, and takes it.
pub const OPT_GO: u32 = 7;
/// Replies in chunks.
pub const OPT_STRUCTURED_REPLY: u32 = 8;
/// Which metadata contexts are there.
pub const OPT_LIST_META_CONTEXT: u32 = 9;
/// Takes some of them.
pub const OPT_SET_META_CONTEXT: u32 = 10;
/// A control request of ours, as text; in no published protocol.
pub const OPT_CONTROL: u32 = 0x6672_0001;

/// Done.
pub const REP_ACK: u32 = 1;
/// An export.
pub const REP_SERVER: u32 = 2;
/// Something about an export.
pub const REP_INFO: u32 = 3;
/// A metadata context.
pub const REP_META_CONTEXT: u32 = 4;
/// The answer to a control request, as text.
pub const REP_CONTROL: u32 = 0x6672_0001;
/// An option that is not known here.
pub const REP_ERR_UNSUP: u32 = 0x8000_0001;
/// One that is not allowed.
pub const REP_ERR_POLICY: u32 = 0x8000_0002;
/// One that makes no sense.
pub const REP_ERR_INVALID: u32 = 0x8000_0003;
/// An export that is not here.
pub const REP_ERR_UNKNOWN: u32 = 0x8000_0006;
/// An option that is too long.
pub const REP_ERR_TOO_BIG: u32 = 0x8000_0009;

/// Size and flags.
pub const INFO_EXPORT: u16 = 0;
/// The export's own name.
pub const INFO_NAME: u16 = 1;
/// Its description.
pub const INFO_DESCRIPTION: u16 = 2;
/// The smallest, the best and the largest request.
pub const INFO_BLOCK_SIZE: u16 = 3;

/// There are flags.
pub const TRANSMIT_HAS_FLAGS: u16 = 1 << 0;
/// Writes are refused.
pub const TRANSMIT_READ_ONLY: u16 = 1 << 1;
/// Flush is served.
pub const TRANSMIT_SEND_FLUSH: u16 = 1 << 2;
/// So is the flag FUA.
pub const TRANSMIT_SEND_FUA: u16 = 1 << 3;
/// So is trim.
pub const TRANSMIT_SEND_TRIM: u16 = 1 << 5;
/// So are writes of zeroes.
pub const TRANSMIT_SEND_WRITE_ZEROES: u16 = 1 << 6;
/// So is the flag DF.
pub const TRANSMIT_SEND_DF: u16 = 1 << 7;
/// A flush on one connection is a flush of all.
pub const TRANSMIT_CAN_MULTI_CONN: u16 = 1 << 8;
/// Cache is served.
pub const TRANSMIT_SEND_CACHE: u16 = 1 << 10;

/// Reads.
pub const CMD_READ: u16 = 0;
/// Writes; the bytes follow.
pub const CMD_WRITE: u16 = 1;
/// The client leaves.
pub const CMD_DISC: u16 = 2;
/// All that was written is to be on the device.
pub const CMD_FLUSH: u16 = 3;
/// These bytes are not needed any more.
pub const CMD_TRIM: u16 = 4;
/// These bytes will be needed soon.
pub const CMD_CACHE: u16 = 5;
/// Writes zeroes.
pub const CMD_WRITE_ZEROES: u16 = 6;
/// What is data and what is not.
pub const CMD_BLOCK_STATUS: u16 = 7;

/// The answer comes when the device has it durably.
pub const CMD_FLAG_FUA: u16 = 1 << 0;
/// Zeroes that are not to become a hole.
pub const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
/// The answer comes in one piece.
pub const CMD_FLAG_DF: u16 = 1 << 2;
/// One extent is enough.
pub const CMD_FLAG_REQ_ONE: u16 = 1 << 3;
/// Zeroes only if that is faster than to write them. Not served: it cannot be promised here.
pub const CMD_FLAG_FAST_ZERO: u16 = 1 << 4;

/// The last chunk of a reply.
pub const REPLY_FLAG_DONE: u16 = 1 << 0;
/// A chunk without a content.
pub const REPLY_NONE: u16 = 0;
/// Data at an offset.
pub const REPLY_OFFSET_DATA: u16 = 1;
/// Zeroes at an offset.
pub const REPLY_OFFSET_HOLE: u16 = 2;
/// Extents.
pub const REPLY_BLOCK_STATUS: u16 = 5;
/// An error of the request.
pub const REPLY_ERROR: u16 = 0x8001;
/// An error at an offset.
pub const REPLY_ERROR_OFFSET: u16 = 0x8002;

/// An extent that takes no room on the device.
pub const STATE_HOLE: u32 = 1 << 0;
/// An extent that reads as zeroes.
pub const STATE_ZERO: u32 = 1 << 1;

/// The one metadata context that is known here.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Its number in replies.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// Requests of any place and length are served.
pub const MIN_BLOCK: u32 = 1;
/// Those of whole pages are served best.
pub const BEST_BLOCK: u32 = 4096;
/// The most bytes of one read or write.
pub const MAX_PAYLOAD: u32 = 32 << 20;
/// The longest name of an export, in bytes.
pub const MAX_NAME: usize = 4096;
