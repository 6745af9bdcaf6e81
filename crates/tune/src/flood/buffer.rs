//! An aligned buffer for `O_DIRECT`, without `unsafe`: an oversized vector contains an aligned
//! part.

/// Aligned bytes.
pub(super) struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// Creates a zeroed buffer that begins at a multiple of `align`.
    pub(super) fn new(len: usize, align: usize) -> Self {
        assert!(align.is_power_of_two(), "{align}");
        let bytes = vec![0; len + align];
        let start = (align - bytes.as_ptr().addr() % align) % align;
        Self { bytes, start, len }
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    /// Returns the bytes for writing.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_at_its_alignment_and_has_its_length() {
        for align in [512, 4096, 65536] {
            let mut buffer = AlignedBuffer::new(4096, align);
            assert_eq!(buffer.bytes().as_ptr().addr() % align, 0);
            assert_eq!(buffer.bytes_mut().len(), 4096);
        }
    }
}
