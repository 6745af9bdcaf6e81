//! Reads into frames, and the system call that does one without a ring.
//!
//! In:    a backend, an offset, frames.
//! Out:   where the kernel shall write; bytes or an error number.
//! Never: a slice of a frame. Readers may be looking at the arena, so it is only ever an address.

use std::fmt;
use std::io;
use std::sync::Arc;

use foreread_core::table::Frame;

use super::RETRIES;
use crate::backend::Backend;
use crate::pool::{PAGE, Pool};

/// A read of whole pages, with all that it needs until it ends.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) backend: Arc<Backend>,
    pub(super) offset: u64,
    pub(super) vectors: Vectors,
}

/// Where the bytes of one read go. Boxed: the kernel keeps its address.
pub(super) struct Vectors(Box<[libc::iovec]>);

// SAFETY: the pointers lead into the arena, which any thread may hand to the kernel.
unsafe impl Send for Vectors {}

impl Reading {
    pub(super) fn new(
        pool: &Pool,
        backend: Arc<Backend>,
        offset: u64,
        frames: impl Iterator<Item = Frame>,
    ) -> Self {
        Self { backend, offset, vectors: Vectors::new(pool, frames) }
    }

    /// Reads it here and now. Whoever calls keeps the pool alive meanwhile.
    pub(super) fn run(&self) -> Result<u32, i32> {
        preadv(&self.backend, self.offset, &self.vectors)
    }
}

impl Vectors {
    /// ```text
    ///   frames    7 8 9   4   12 13        neighbours in memory become one vector
    ///   vectors   |---|   |   |---|
    /// ```
    pub(super) fn new(pool: &Pool, frames: impl Iterator<Item = Frame>) -> Self {
        let mut vectors: Vec<libc::iovec> = Vec::new();
        for frame in frames {
            let frame = pool.address(frame);
            match vectors.last_mut() {
                Some(last)
                    if last.iov_base.cast::<u8>().wrapping_add(last.iov_len) == frame.as_ptr() =>
                {
                    last.iov_len += PAGE;
                }
                _ => vectors.push(libc::iovec { iov_base: frame.as_ptr().cast(), iov_len: PAGE }),
            }
        }
        Self(vectors.into_boxed_slice())
    }

    pub(super) fn as_ptr(&self) -> *const libc::iovec {
        self.0.as_ptr()
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("a request has few pages")
    }
}

impl fmt::Debug for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|vector| vector.iov_len)).finish()
    }
}

/// A signal, or a kernel that asks to try again, is not an error yet: a few times it is done again.
pub(super) fn preadv(backend: &Backend, offset: u64, vectors: &Vectors) -> Result<u32, i32> {
    let mut retries = 0;
    loop {
        let result = preadv_once(backend, offset, vectors);
        match result {
            Err(libc::EINTR | libc::EAGAIN) if retries < RETRIES => retries += 1,
            Ok(_) | Err(_) => return result,
        }
    }
}

fn preadv_once(backend: &Backend, offset: u64, vectors: &Vectors) -> Result<u32, i32> {
    let count = i32::try_from(vectors.count()).expect("a request has few pages");
    let Ok(offset) = libc::off_t::try_from(offset) else { return Err(libc::EINVAL) };
    // SAFETY: the vectors lead into the arena, to frames that only this read fills; its pool lives
    // as long as the borrow of whoever called, and nobody has a slice of it.
    let bytes = unsafe { libc::preadv(backend.raw_fd(), vectors.as_ptr(), count, offset) };
    u32::try_from(bytes).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}
