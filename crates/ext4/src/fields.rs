//! Little-endian fields at fixed offsets of a structure. The caller has checked the structure's
//! length: a field outside it is a bug, and panics.

pub(crate) fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from(le16(bytes, at)) | u32::from(le16(bytes, at + 2)) << 16
}

/// Combines the two halves of a number that has grown since ext2.
pub(crate) fn halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Returns sixteen bytes at an offset.
pub(crate) fn array16(bytes: &[u8], at: usize) -> [u8; 16] {
    let mut array = [0; 16];
    array.copy_from_slice(&bytes[at..at + 16]);
    array
}
