//! Transfers: frames and a device, with all that it takes to move pages from the one to the other,
//! and the system call that does it without a ring.
//!
//! In:    a backend, an offset, frames, which way.
//! Out:   where the kernel shall read or write; bytes or an error number.
//! Never: a slice of a frame. Readers may be looking at the arena, so it is only ever an address.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::Arc;

use foreread_core::sched::Op;
use foreread_core::table::Frame;

use super::RETRIES;
use crate::backend::{Backend, IoTarget};
use crate::copy_racing::copy_racing;
use crate::faults::{Attempt, Fate};
use crate::pool::{PAGE, Pool};
use crate::volatile::VolatileDisk;

/// Which way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TransferOp {
    /// From the device.
    Read,
    /// To the device; done when it is durable there, or when the device says so.
    Write { is_durable: bool },
}

/// Pages on their way, with all that this needs until it ends.
///
/// ```text
///   total   |===============================|      a write that the device cuts short goes on
///   done    |===========|                          where it ended; a read does not, as its core
///   asked               |===================|      knows which of its pages are wanted
/// ```
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) backend: Arc<Backend>,
    pub(super) way: TransferOp,
    offset: u64,
    vectors: Vectors,
    total: u32,
    /// How much of a write has arrived.
    done: u32,
    /// What this try asks for, if that is not everything.
    part: Option<Vectors>,
    retries: u32,
    /// What is to go wrong on purpose; None for nothing.
    fate: Option<Box<Fate>>,
}

/// Where the bytes of a transfer are. Boxed: the kernel keeps its address.
pub(super) struct Vectors(Box<[libc::iovec]>);

// SAFETY: the pointers lead into the arena, which any thread may hand to the kernel.
unsafe impl Send for Vectors {}

/// What one try asks of the kernel.
pub(super) struct Asks<'t> {
    pub(super) fd: RawFd,
    pub(super) vectors: &'t Vectors,
    pub(super) offset: u64,
    /// Of `pwritev2(2)`.
    pub(super) flags: i32,
}

impl Transfer {
    pub(super) fn read(
        pool: &Pool,
        backend: Arc<Backend>,
        offset: u64,
        parts: impl Iterator<Item = (Frame, Range<usize>)>,
    ) -> Self {
        Self::new(TransferOp::Read, backend, offset, Vectors::new(pool, parts))
    }

    /// A write of `len` bytes: all pages are whole, but the last one may be short.
    pub(super) fn write(
        pool: &Pool,
        backend: Arc<Backend>,
        offset: u64,
        len: u64,
        is_durable: bool,
        frames: impl Iterator<Item = Frame>,
    ) -> Self {
        let pages = Vectors::new(pool, frames.map(|frame| (frame, 0..PAGE)));
        assert!(len <= pages.bytes(), "no more than the frames hold");
        let vectors = if len < pages.bytes() { pages.part(0, len) } else { pages };
        Self::new(TransferOp::Write { is_durable }, backend, offset, vectors)
    }

    fn new(way: TransferOp, backend: Arc<Backend>, offset: u64, vectors: Vectors) -> Self {
        let total = u32::try_from(vectors.bytes()).expect("a request's bytes fit in 32 bits");
        let (done, part, retries, fate) = (0, None, 0, None);
        let mut transfer = Self { backend, way, offset, vectors, total, done, part, retries, fate };
        transfer.judge(Attempt::First);
        transfer
    }

    /// Where it waits for a test to let it go, if it does.
    pub(super) fn gate(&self) -> Option<RawFd> {
        self.fate.as_ref().and_then(|fate| fate.gate_fd())
    }

    /// It has been let go.
    pub(super) fn open_gate(&mut self) {
        if let Some(fate) = &mut self.fate {
            fate.gate = None;
        }
    }

    /// What the kernel is to do at this try; None if nothing, because a test has it so.
    pub(super) fn asks(&self) -> Option<Asks<'_>> {
        let vectors = self.part.as_ref().unwrap_or(&self.vectors);
        if vectors.0.is_empty() {
            return None;
        }
        let offset = self.offset.saturating_add(u64::from(self.done));
        let (fd, must_last) = match self.way {
            TransferOp::Read => (self.backend.fd(), false),
            TransferOp::Write { is_durable } => {
                let is_end = offset + vectors.bytes() == self.end() && self.is_end_of_file();
                let (fd, must_last) = self.backend.fd_for_write(offset, vectors.bytes(), is_end);
                (fd, is_durable || must_last)
            }
        };
        let flags = if must_last { libc::RWF_DSYNC } else { 0 };
        Some(Asks { fd, vectors, offset, flags })
    }

    /// Takes the result of one try. Returns the final result; None if it is tried again or goes on.
    pub(super) fn after(&mut self, result: Result<u32, i32>) -> Option<Result<u32, i32>> {
        let result = match &self.fate {
            None => result,
            Some(fate) => match self.way {
                TransferOp::Read => fate.befall_read(result, |from| self.vectors.overwrite(from)),
                TransferOp::Write { .. } => fate.befall_write(result),
            },
        };
        if is_again(result) && self.retries < RETRIES {
            self.retries += 1;
            self.judge(Attempt::Again);
            return None;
        }
        if self.way == TransferOp::Read {
            return Some(result);
        }
        self.go_on(result)
    }

    /// ```text
    ///   some bytes arrived, not all    the rest is asked for, from the last whole sector on
    ///   none did, or an error          what arrived before is the result; if that is no page, the
    ///                                  error
    /// ```
    fn go_on(&mut self, result: Result<u32, i32>) -> Option<Result<u32, i32>> {
        let before = self.done;
        match result {
            Ok(bytes) => self.done = (self.done + bytes).min(self.total),
            Err(errno) if (before as usize) < PAGE => return Some(Err(errno)),
            Err(_) => {}
        }
        if self.done < self.total {
            self.done -= self.done % SECTOR;
        }
        if self.done == self.total || self.done <= before {
            return Some(Ok(self.done));
        }
        self.judge(Attempt::Again);
        None
    }

    /// Asks before each try what is to become of it.
    ///
    /// All that the tool for tests costs where it is not used: this one branch.
    fn judge(&mut self, which: Attempt) {
        let rest = self.total - self.done;
        let mut asked = rest;
        if let Some(faults) = &self.backend.faults {
            let (op, offset) = (self.op(), self.offset.saturating_add(u64::from(self.done)));
            let fate = faults.judge(op, offset, u64::from(rest), which);
            if op == Op::Write {
                asked = fate.of_write(rest);
            }
            self.fate = Some(Box::new(fate));
        }
        if asked == rest && self.op() == Op::Write && self.is_end_of_file() {
            asked = self.backend.before_last_page(rest, self.end()).unwrap_or(rest);
        }
        if self.op() == Op::Write && self.backend.ends_before(self.end()) {
            // Nothing is written, and the core is told of a device that ended early.
            asked = 0;
        }
        let is_part = asked < self.total;
        self.part = is_part.then(|| self.vectors.part(self.done.into(), asked.into()));
    }

    fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.total))
    }

    /// Pages are whole but for the last one of a file.
    fn is_end_of_file(&self) -> bool {
        !self.end().is_multiple_of(PAGE as u64)
    }

    fn op(&self) -> Op {
        match self.way {
            TransferOp::Read => Op::Read,
            TransferOp::Write { .. } => Op::Write,
        }
    }

    /// Does the transfer in this thread. The caller keeps the pool alive meanwhile.
    ///
    /// A signal, or a kernel that asks to try again, is an error only after a few more tries.
    pub(super) fn run(&mut self) -> Result<u32, i32> {
        loop {
            if let Some(fate) = &mut self.fate {
                fate.pass_gate();
            }
            let result = self.try_once();
            if let Some(result) = self.after(result) {
                return result;
            }
        }
    }

    fn try_once(&self) -> Result<u32, i32> {
        let device = match self.backend.place() {
            IoTarget::Memory(device) => device,
            IoTarget::File => {
                return self.asks().map_or(Ok(0), |asks| match self.way {
                    TransferOp::Read => preadv(&asks),
                    TransferOp::Write { .. } => pwritev(&asks),
                });
            }
        };
        let vectors = self.part.as_ref().unwrap_or(&self.vectors);
        let offset = self.offset.saturating_add(u64::from(self.done));
        match self.way {
            TransferOp::Read => Ok(vectors.read_from(device, offset)),
            TransferOp::Write { is_durable } => vectors.write_to(device, offset, is_durable),
        }
    }
}

impl Vectors {
    /// ```text
    ///   frames    7 8 9   4   12 13        neighbours in memory become one vector
    ///   vectors   |---|   |   |---|
    /// ```
    fn new(pool: &Pool, parts: impl Iterator<Item = (Frame, Range<usize>)>) -> Self {
        // Most have one, and then the box is the list as it is.
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

    /// `len` bytes of these, from byte `from` on.
    fn part(&self, from: u64, len: u64) -> Self {
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

    fn bytes(&self) -> u64 {
        self.0.iter().map(|vector| vector.iov_len as u64).sum()
    }

    /// Overwrites all from byte `from` on, so that it is of no use to a reader.
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

    fn read_from(&self, device: &VolatileDisk, offset: u64) -> u32 {
        let bytes = device.read(offset, self.bytes());
        let mut rest = &bytes[..];
        for vector in &self.0 {
            let (now, later) = rest.split_at(rest.len().min(vector.iov_len));
            // SAFETY: `now` is no longer than the vector, which leads into the arena, to frames
            // that only this read fills; its pool lives as long as the caller's borrow.
            unsafe { copy_racing(now.as_ptr(), vector.iov_base.cast(), now.len()) };
            rest = later;
        }
        u32::try_from(bytes.len()).expect("a request's bytes fit in 32 bits")
    }

    fn write_to(&self, device: &VolatileDisk, offset: u64, is_durable: bool) -> Result<u32, i32> {
        let mut bytes = vec![
            0;
            usize::try_from(self.bytes())
                .expect("a request's frames are in memory, and so is its length")
        ];
        let mut rest = &mut bytes[..];
        for vector in &self.0 {
            let (now, later) = rest.split_at_mut(vector.iov_len);
            // SAFETY: `now` is as long as the vector, which leads into the arena, to frames whose
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

fn preadv(asks: &Asks<'_>) -> Result<u32, i32> {
    let count = i32::try_from(asks.vectors.count()).expect("a request's bytes fit in 32 bits");
    let Ok(offset) = libc::off_t::try_from(asks.offset) else { return Err(libc::EINVAL) };
    // SAFETY: the vectors lead into the arena, to frames that only this read fills, and of which
    // there is no slice; its pool lives as long as the caller's borrow.
    let bytes = unsafe { libc::preadv(asks.fd, asks.vectors.as_ptr(), count, offset) };
    bytes_or_errno(bytes)
}

fn pwritev(asks: &Asks<'_>) -> Result<u32, i32> {
    let count = i32::try_from(asks.vectors.count()).expect("a request's bytes fit in 32 bits");
    let Ok(offset) = libc::off_t::try_from(asks.offset) else { return Err(libc::EINVAL) };
    // SAFETY: the vectors lead into the arena, to frames that the core keeps until the write ends;
    // the kernel only reads there, and so does all other code meanwhile.
    let bytes =
        unsafe { libc::pwritev2(asks.fd, asks.vectors.as_ptr(), count, offset, asks.flags) };
    bytes_or_errno(bytes)
}

fn bytes_or_errno(bytes: isize) -> Result<u32, i32> {
    u32::try_from(bytes).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// What is not the device's error: the thread that submitted it ended, or it shall be tried again.
fn is_again(result: Result<u32, i32>) -> bool {
    matches!(result, Err(libc::ECANCELED | libc::EAGAIN | libc::EINTR))
}

/// No page of a test is filled with it.
const OVERWRITTEN: u8 = 0xe5;

/// The least that any device takes: a write that was cut short goes on at such a place.
const SECTOR: u32 = 512;
