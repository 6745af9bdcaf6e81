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
use crate::faults::{Fate, Try};
use crate::pool::{PAGE, Pool};

/// A read of whole pages, with all that it needs until it ends.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) backend: Arc<Backend>,
    pub(super) offset: u64,
    pub(super) vectors: Vectors,
    /// What is to go wrong on purpose; None for nothing.
    pub(super) fate: Option<Box<Fate>>,
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
        let mut reading = Self { backend, offset, vectors: Vectors::new(pool, frames), fate: None };
        reading.judge(Try::First);
        reading
    }

    /// Whether it waits for a test to let it go.
    pub(super) fn is_held(&self) -> bool {
        self.fate.as_ref().is_some_and(|fate| fate.gate.is_some())
    }

    /// Asks before each try what is to become of it.
    pub(super) fn judge(&mut self, which: Try) {
        self.fate = judge(&self.backend, self.offset, &self.vectors, which);
    }

    /// The result that a try shall have, given what the kernel said.
    pub(super) fn befall(&self, result: Result<u32, i32>) -> Result<u32, i32> {
        befall(self.fate.as_deref(), &self.vectors, result)
    }

    /// Reads it here and now. Whoever calls keeps the pool alive meanwhile.
    pub(super) fn run(&mut self) -> Result<u32, i32> {
        preadv(&self.backend, self.offset, &self.vectors, self.fate.take())
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

    fn bytes(&self) -> u64 {
        self.0.iter().map(|vector| vector.iov_len as u64).sum()
    }

    /// Makes all from byte `from` on useless to whoever looks.
    fn overwrite(&self, mut from: usize) {
        for vector in &self.0 {
            let skip = from.min(vector.iov_len);
            from -= skip;
            let start = vector.iov_base.cast::<u8>().wrapping_add(skip);
            // SAFETY: a part of the vector, which leads into the arena, to a frame that only this
            // read fills; readers that look at it meanwhile throw away what they see.
            unsafe { start.write_bytes(OVERWRITTEN, vector.iov_len - skip) };
        }
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
pub(super) fn preadv(
    backend: &Backend,
    offset: u64,
    vectors: &Vectors,
    mut fate: Option<Box<Fate>>,
) -> Result<u32, i32> {
    let mut retries = 0;
    loop {
        if let Some(fate) = &mut fate {
            fate.pass_gate();
        }
        let result = befall(fate.as_deref(), vectors, preadv_once(backend, offset, vectors));
        match result {
            Err(libc::EINTR | libc::EAGAIN) if retries < RETRIES => retries += 1,
            Ok(_) | Err(_) => return result,
        }
        fate = judge(backend, offset, vectors, Try::Again);
    }
}

/// All that the tool for tests costs where it is not used: this one branch.
pub(super) fn judge(
    backend: &Backend,
    offset: u64,
    vectors: &Vectors,
    which: Try,
) -> Option<Box<Fate>> {
    let faults = backend.faults.as_ref()?;
    Some(Box::new(faults.judge(offset, vectors.bytes(), which)))
}

fn befall(fate: Option<&Fate>, vectors: &Vectors, result: Result<u32, i32>) -> Result<u32, i32> {
    match fate {
        None => result,
        Some(fate) => fate.befall(result, |from| vectors.overwrite(from)),
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

/// No page of a test is filled with it.
const OVERWRITTEN: u8 = 0xe5;
