//! Buffers of connections, mapped from the system and unmapped when they are dropped: the heap
//! would keep freed memory.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{Advice, MmapMut};

/// Source of buffers for the connections of one server. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct BufferMemory {
    mapped: Arc<AtomicUsize>,
}

/// Bytes of one buffer. Pages that were never written use no memory.
#[derive(Debug)]
pub(crate) struct ConnectionBuffer {
    bytes: BufferBytes,
    owner: BufferMemory,
}

#[derive(Debug)]
enum BufferBytes {
    Mapped(MmapMut),
    /// For an empty buffer, or when the process has no mapping left (`vm.max_map_count`).
    Heap(Vec<u8>),
}

impl BufferMemory {
    /// Returns a buffer of this length, all zeros.
    pub(crate) fn buffer(&self, len: usize) -> ConnectionBuffer {
        let map = (len > 0).then(|| MmapMut::map_anon(len));
        let bytes = match map {
            Some(Ok(map)) => {
                // Neighbours are one mapping to the kernel: a huge page would back untouched ones.
                // A kernel without huge pages refuses the advice.
                let _ = map.advise(Advice::NoHugePage);
                self.mapped.fetch_add(len, Ordering::Relaxed);
                BufferBytes::Mapped(map)
            }
            None | Some(Err(_)) => BufferBytes::Heap(vec![0; len]),
        };
        let buffer = ConnectionBuffer { bytes, owner: self.clone() };
        assert_eq!(buffer.len(), len, "a buffer has the length that was asked for");
        buffer
    }

    /// Returns the bytes of all buffers that are mapped now.
    #[cfg(test)]
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.mapped.load(Ordering::Relaxed)
    }
}

impl ConnectionBuffer {
    /// Makes the buffer longer; its contents stay.
    pub(crate) fn grow(&mut self, len: usize) {
        assert!(len >= self.len(), "a buffer grows");
        let mut longer = self.owner.buffer(len);
        longer[..self.len()].copy_from_slice(self);
        *self = longer;
    }

    /// Replaces the buffer by one of this length, all zeros.
    pub(crate) fn replace(&mut self, len: usize) {
        *self = self.owner.buffer(len);
    }
}

impl Deref for ConnectionBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            BufferBytes::Mapped(map) => map,
            BufferBytes::Heap(bytes) => bytes,
        }
    }
}

impl DerefMut for ConnectionBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.bytes {
            BufferBytes::Mapped(map) => map,
            BufferBytes::Heap(bytes) => bytes,
        }
    }
}

impl Drop for ConnectionBuffer {
    fn drop(&mut self) {
        if let BufferBytes::Mapped(map) = &self.bytes {
            self.owner.mapped.fetch_sub(map.len(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_counts_while_it_lives_and_keeps_its_contents_when_it_grows() {
        let memory = BufferMemory::default();
        let mut one = memory.buffer(4096);
        one[..3].copy_from_slice(b"abc");
        let empty = memory.buffer(0);
        assert!(empty.is_empty());
        assert_eq!(memory.mapped_bytes(), 4096);
        one.grow(80 << 10);
        assert_eq!((&one[..4], one.len()), (&b"abc\0"[..], 80 << 10));
        assert_eq!(memory.mapped_bytes(), 80 << 10);
        one.replace(4096);
        assert_eq!(one[..4], [0; 4]);
        assert_eq!(memory.mapped_bytes(), 4096);
        drop(one);
        assert_eq!(memory.mapped_bytes(), 0);
    }
}
