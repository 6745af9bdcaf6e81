//! The addresses of the frames that one transfer moves, as `preadv` and `pwritev2` take them. Never
//! a slice of a frame, because readers may be looking at the arena.

use std::fmt;
use std::ops::Range;

use foreread_core::table::Frame;

use crate::copy_racing::copy_racing;
use crate::pool::{PAGE, Pool};
use crate::volatile::VolatileDisk;

/// The memory of a transfer. Boxed, because the kernel keeps its address.
pub(super) struct Vectors(Box<[libc::iovec]>);

// SAFETY: the pointers lead into the arena, which any thread may hand to the kernel.
unsafe impl Send for Vectors {}

impl Vectors {
    /// ```text
    ///   frames    7 8 9   4   12 13        neighbours in memory become one vector
    ///   vectors   |---|   |   |---|
    /// ```
    pub(super) fn new(pool: &Pool, parts: impl Iterator<Item = (Frame, Range<usize>)>) -> Self {
        // Most transfers have one vector, and then the box is the list as it is.
        let mut vectors: Vec<libc::iovec> = Vec::with_capacity(1);
        for (frame, bytes) in parts {
            assert!(bytes.start < bytes.end && bytes.end <= PAGE, "a part lies in its page");
            let start = pool.address(frame).as_ptr().wrapping_add(bytes.start);
            match vectors.last_mut() {
                Some(last) if last.iov_base.cast::<u8>().wrapping_add(last.iov_len) == start => {
                    last.iov_len += bytes.len();
                }
                _ => vectors.push(libc::iovec { iov_base: start.cast(), iov_len: bytes.len() }),
            }
        }
        Self(vectors.into_boxed_slice())
    }

    /// Returns `len` bytes of these, from byte `from` on.
    pub(super) fn part(&self, from: u64, len: u64) -> Self {
        let (mut skip, mut left) = (from, len);
        let mut vectors = Vec::new();
        for vector in &self.0 {
            let skipped = skip.min(vector.iov_len as u64);
            let taken = (vector.iov_len as u64 - skipped).min(left);
            if taken > 0 {
                let from = usize::try_from(skipped)
                    .expect("the part done is less than the vector that it ends in");
                let iov_base = vector.iov_base.cast::<u8>().wrapping_add(from).cast();
                let iov_len = usize::try_from(taken)
                    .expect("the part done is less than the vector that it ends in");
                vectors.push(libc::iovec { iov_base, iov_len });
            }
            skip -= skipped;
            left -= taken;
        }
        Self(vectors.into_boxed_slice())
    }

    pub(super) fn as_ptr(&self) -> *const libc::iovec {
        self.0.as_ptr()
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("a request's bytes fit in 32 bits")
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|vector| vector.iov_len as u64).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Overwrites all bytes from byte `from` on, so that no reader can use them.
    pub(super) fn overwrite(&self, mut from: usize) {
        for vector in &self.0 {
            let skip = from.min(vector.iov_len);
            from -= skip;
            let start = vector.iov_base.cast::<u8>().wrapping_add(skip);
            // SAFETY: a part of the vector, which points into the arena, to a frame that only this
            // read fills; concurrent readers discard the bytes that they see.
            unsafe { start.write_bytes(OVERWRITTEN, vector.iov_len - skip) };
        }
    }

    pub(super) fn read_from(&self, device: &VolatileDisk, offset: u64) -> u32 {
        let bytes = device.read(offset, self.bytes());
        let mut rest = &bytes[..];
        for vector in &self.0 {
            let (now, later) = rest.split_at(rest.len().min(vector.iov_len));
            // SAFETY: `now` is no longer than the vector, which points into the arena, to frames
            // that only this read fills; its pool lives as long as the caller's borrow.
            unsafe { copy_racing(now.as_ptr(), vector.iov_base.cast(), now.len()) };
            rest = later;
        }
        u32::try_from(bytes.len()).expect("a request's bytes fit in 32 bits")
    }

    pub(super) fn write_to(
        &self,
        device: &VolatileDisk,
        offset: u64,
        is_durable: bool,
    ) -> Result<u32, i32> {
        let mut bytes = vec![
            0;
            usize::try_from(self.bytes())
                .expect("a request's frames are in memory, and so is its length")
        ];
        let mut rest = &mut bytes[..];
        for vector in &self.0 {
            let (now, later) = rest.split_at_mut(vector.iov_len);
            // SAFETY: `now` is as long as the vector, which points into the arena, to frames whose
            // bytes do not change while they are written to a device.
            unsafe { copy_racing(vector.iov_base.cast(), now.as_mut_ptr(), now.len()) };
            rest = later;
        }
        device.write(offset, &bytes, is_durable)
    }
}

impl fmt::Debug for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|vector| vector.iov_len)).finish()
    }
}

/// A value that fills no page of a test.
const OVERWRITTEN: u8 = 0xe5;
