//! Numbers as ext4 keeps them: little-endian, at a fixed place of a structure.
//!
//! In:    the bytes of a structure whose length was checked, and an offset in it.
//! Out:   a number.
//! Never: an unchecked length: a field outside of its structure is a bug in the caller, and panics.

pub(crate) fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from(le16(bytes, at)) | u32::from(le16(bytes, at + 2)) << 16
}

/// A number that is kept in two halves, as what has grown since ext2 is.
pub(crate) fn halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Sixteen bytes.
pub(crate) fn array16(bytes: &[u8], at: usize) -> [u8; 16] {
    let mut array = [0; 16];
    array.copy_from_slice(&bytes[at..at + 16]);
    array
}
