//! Encodes reply headers, and replies without data. Data of reads are sent from their own buffers.

use super::NbdErrno;
use super::wire::{
    BASE_ALLOCATION_ID, REPLY_BLOCK_STATUS, REPLY_ERROR, REPLY_ERROR_OFFSET, REPLY_FLAG_DONE,
    REPLY_OFFSET_DATA, SIMPLE_REPLY_MAGIC, STATE_HOLE, STATE_ZERO, STRUCTURED_REPLY_MAGIC,
};

/// Length of a simple reply's header.
pub const SIMPLE: usize = 16;
/// Length of a chunk's header.
pub const CHUNK: usize = 20;
/// Length of the header of a data chunk, with its offset.
pub const DATA_CHUNK: usize = CHUNK + 8;

/// Returns a simple reply, or the header of one with data.
#[must_use]
pub fn simple(cookie: u64, result: Result<(), NbdErrno>) -> [u8; SIMPLE] {
    let mut bytes = [0; SIMPLE];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&result.map_or_else(|errno| errno as u32, |()| 0).to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// Returns the header of a chunk of `len` bytes of data at `offset`; `is_last` if no other chunk
/// follows in the reply.
#[must_use]
pub fn data(cookie: u64, offset: u64, len: u32, is_last: bool) -> [u8; DATA_CHUNK] {
    let mut bytes = [0; DATA_CHUNK];
    let flags = if is_last { REPLY_FLAG_DONE } else { 0 };
    bytes[..CHUNK].copy_from_slice(&chunk(cookie, flags, REPLY_OFFSET_DATA, len + 8));
    bytes[CHUNK..].copy_from_slice(&offset.to_be_bytes());
    bytes
}

/// Returns an error chunk, which ends the reply.
#[must_use]
pub fn error(cookie: u64, errno: NbdErrno) -> [u8; CHUNK + 6] {
    let mut bytes = [0; CHUNK + 6];
    bytes[..CHUNK].copy_from_slice(&chunk(cookie, REPLY_FLAG_DONE, REPLY_ERROR, 6));
    bytes[CHUNK..CHUNK + 4].copy_from_slice(&(errno as u32).to_be_bytes());
    bytes
}

/// Returns an error chunk for a failure at `offset`, which ends the reply.
#[must_use]
pub fn error_at(cookie: u64, errno: NbdErrno, offset: u64) -> [u8; CHUNK + 14] {
    let mut bytes = [0; CHUNK + 14];
    bytes[..CHUNK].copy_from_slice(&chunk(cookie, REPLY_FLAG_DONE, REPLY_ERROR_OFFSET, 14));
    bytes[CHUNK..CHUNK + 4].copy_from_slice(&(errno as u32).to_be_bytes());
    bytes[CHUNK + 6..].copy_from_slice(&offset.to_be_bytes());
    bytes
}

/// Returns a block-status reply; each extent has a length, and true for data.
///
/// # Panics
///
/// If there are half a billion extents.
#[must_use]
pub fn block_status(cookie: u64, extents: &[(u32, bool)]) -> Vec<u8> {
    let len = u32::try_from(4 + 8 * extents.len()).expect("a reply of extents is 32 KiB at most");
    let mut bytes = chunk(cookie, REPLY_FLAG_DONE, REPLY_BLOCK_STATUS, len).to_vec();
    bytes.extend_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
    for (len, is_data) in extents {
        let state = if *is_data { 0 } else { STATE_HOLE | STATE_ZERO };
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(&state.to_be_bytes());
    }
    bytes
}

fn chunk(cookie: u64, flags: u16, kind: u16, len: u32) -> [u8; CHUNK] {
    let mut bytes = [0; CHUNK];
    bytes[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&len.to_be_bytes());
    bytes
}
