//! Transfers: the frames, the device and all state of one read or write until it completes, and the
//! plain system call that performs it without a ring. It holds addresses of frames, never slices,
//! because readers may be looking at the arena.

use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::Arc;

use foreread_core::sched::Op;
use foreread_core::table::Frame;
use foreread_core::units::MAX_FILE_BYTES;

use super::RETRIES;
use super::vectors::Vectors;
use crate::backend::{Backend, FuaMethod, IoTarget};
use crate::faults::{Attempt, Fate};
use crate::pool::{PAGE, Pool};

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TransferOp {
    /// From the device.
    Read,
    /// To the device. A durable write completes once it is durable, any other once the device
    /// reports completion.
    Write { is_durable: bool },
}

/// A transfer in flight, with everything it needs until it completes.
///
/// ```text
///   total   |===============================|      a write that the device cuts short goes on
///   done    |===========|                          where it ended; a read does not, as its core
///   asked               |===================|      knows which of its pages are wanted
/// ```
///
/// A durable write ends with a flush if the file system may ignore `RWF_DSYNC` ([`FuaMethod`]).
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) backend: Arc<Backend>,
    pub(super) way: TransferOp,
    offset: u64,
    vectors: Vectors,
    total: u32,
    /// Bytes of a write that are already written.
    done: u32,
    /// The vectors of this attempt, if it does not cover the whole transfer.
    part: Option<Vectors>,
    retries: u32,
    /// The descriptor being flushed, once everything is written.
    flush: Option<RawFd>,
    /// The injected fault, if any.
    fate: Option<Box<Fate>>,
}

/// The system call of one attempt.
pub(super) enum Asks<'t> {
    /// `preadv(2)` or `pwritev2(2)`.
    Move {
        fd: RawFd,
        vectors: &'t Vectors,
        offset: u64,
        /// Flags of `pwritev2(2)`.
        flags: i32,
    },
    /// `fdatasync(2)`.
    Flush { fd: RawFd },
}

impl Transfer {
    pub(super) fn read(
        pool: &Pool,
        backend: Arc<Backend>,
        offset: u64,
        parts: impl Iterator<Item = (Frame, Range<usize>)>,
    ) -> Self {
        let vectors = Vectors::new(pool, parts);
        // The last page of the longest possible file ends past the largest offset that the kernel
        // accepts.
        let readable = MAX_FILE_BYTES.0.saturating_sub(offset);
        let is_cut = (1..vectors.bytes()).contains(&readable);
        let vectors = if is_cut { vectors.part(0, readable) } else { vectors };
        Self::new(TransferOp::Read, backend, offset, vectors)
    }

    /// Creates a write of `len` bytes: whole pages, except that the last may be partial.
    pub(super) fn write(
        pool: &Pool,
        backend: Arc<Backend>,
        bytes: Range<u64>,
        is_durable: bool,
        frames: impl Iterator<Item = Frame>,
    ) -> Self {
        let pages = Vectors::new(pool, frames.map(|frame| (frame, 0..PAGE)));
        let len = bytes.end - bytes.start;
        assert!(len <= pages.bytes(), "no more than the frames hold");
        let vectors = if len < pages.bytes() { pages.part(0, len) } else { pages };
        Self::new(TransferOp::Write { is_durable }, backend, bytes.start, vectors)
    }

    fn new(way: TransferOp, backend: Arc<Backend>, offset: u64, vectors: Vectors) -> Self {
        let total = u32::try_from(vectors.bytes()).expect("a request's bytes fit in 32 bits");
        let (done, part, retries, flush, fate) = (0, None, 0, None, None);
        let mut transfer =
            Self { backend, way, offset, vectors, total, done, part, retries, flush, fate };
        transfer.judge(Attempt::First);
        transfer
    }

    /// Returns the descriptor of the gate at which a test holds the transfer, if any.
    pub(super) fn gate(&self) -> Option<RawFd> {
        self.fate.as_ref().and_then(|fate| fate.gate_fd())
    }

    /// Opens the gate.
    pub(super) fn open_gate(&mut self) {
        if let Some(fate) = &mut self.fate {
            fate.gate = None;
        }
    }

    /// Returns the system call of this attempt; None if a test suppresses it.
    pub(super) fn asks(&self) -> Option<Asks<'_>> {
        if let Some(fd) = self.flush {
            let is_refused = self.fate.as_ref().is_some_and(|it| it.befall_write(Ok(0)).is_err());
            return (!is_refused).then_some(Asks::Flush { fd });
        }
        let vectors = self.part.as_ref().unwrap_or(&self.vectors);
        if vectors.is_empty() {
            return None;
        }
        let offset = self.offset.saturating_add(u64::from(self.done));
        let (fd, must_last) = self.descriptor(offset, vectors.bytes());
        let is_dsync = must_last && self.backend.fua_method == FuaMethod::Dsync;
        let flags = if is_dsync { libc::RWF_DSYNC } else { 0 };
        Some(Asks::Move { fd, vectors, offset, flags })
    }

    /// Returns the descriptor for `len` bytes at `offset`, and whether the transfer has to make
    /// them durable.
    fn descriptor(&self, offset: u64, len: u64) -> (RawFd, bool) {
        match self.way {
            TransferOp::Read => (self.backend.fd(), false),
            TransferOp::Write { is_durable } => {
                let is_end = offset + len == self.end() && self.is_end_of_file();
                let (fd, must_last) = self.backend.fd_for_write(offset, len, is_end);
                (fd, is_durable || must_last)
            }
        }
    }

    /// Processes the result of one attempt. Returns the final result; None if the transfer is
    /// retried or continues.
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
        if self.flush.is_some() {
            return Some(result.map(|_| self.total).map_err(errno_of_flush));
        }
        self.go_on(result)
    }

    /// ```text
    ///   some bytes arrived, not all    request the rest, from the last whole sector on
    ///   none did, or an error          the result is the bytes that arrived before; if these are
    ///                                  less than a page, the error
    ///   all did                        the result is all bytes, or the flush follows
    /// ```
    fn go_on(&mut self, result: Result<u32, i32>) -> Option<Result<u32, i32>> {
        let before = self.done;
        match result {
            Ok(bytes) => self.done = (self.done + bytes).min(self.total),
            Err(errno) if (before as usize) < PAGE => return Some(Err(errno)),
            Err(_) => {}
        }
        let last = self.total - before;
        if self.done < self.total {
            self.done -= self.done % SECTOR;
        }
        if self.done <= before {
            return Some(Ok(self.done));
        }
        if self.done == self.total {
            let at = self.offset.saturating_add(u64::from(before));
            let (fd, must_last) = self.descriptor(at, last.into());
            if !must_last || self.backend.fua_method == FuaMethod::Dsync {
                return Some(Ok(self.done));
            }
            self.flush = Some(fd);
        }
        self.judge(Attempt::Again);
        None
    }

    /// Determines the injected fault of the next attempt. Without injected faults it costs one
    /// branch.
    fn judge(&mut self, which: Attempt) {
        if self.flush.is_some() {
            let faults = self.backend.faults.as_ref();
            self.fate = faults.map(|faults| Box::new(faults.judge_sync()));
            return;
        }
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
            // Write nothing, and report to the core that the device ends early.
            asked = 0;
        }
        let is_part = asked < self.total;
        self.part = is_part.then(|| self.vectors.part(self.done.into(), asked.into()));
    }

    fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.total))
    }

    /// Returns true if the last page of the transfer is partial, as only the last page of a file
    /// is.
    fn is_end_of_file(&self) -> bool {
        !self.end().is_multiple_of(PAGE as u64)
    }

    fn op(&self) -> Op {
        match self.way {
            TransferOp::Read => Op::Read,
            TransferOp::Write { .. } => Op::Write,
        }
    }

    /// Performs the transfer on this thread. The caller keeps the pool alive.
    ///
    /// An interrupted or retryable call becomes an error only after a few more attempts.
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
                return self.asks().map_or(Ok(0), |asks| asks.call(self.way));
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

impl Asks<'_> {
    /// Performs the system call on this thread.
    fn call(&self, way: TransferOp) -> Result<u32, i32> {
        let (fd, vectors, offset, flags) = match *self {
            Self::Move { fd, vectors, offset, flags } => (fd, vectors, offset, flags),
            Self::Flush { fd } => {
                // SAFETY: the call takes a number only, of a descriptor that the transfer keeps
                // open.
                let result = unsafe { libc::fdatasync(fd) };
                return bytes_or_errno(isize::try_from(result).expect("0 or -1"));
            }
        };
        let count = i32::try_from(vectors.count()).expect("a request's bytes fit in 32 bits");
        let Ok(offset) = libc::off_t::try_from(offset) else { return Err(libc::EINVAL) };
        let first = vectors.as_ptr();
        let bytes = match way {
            // SAFETY: the vectors point into the arena, to frames that only this read fills, and of
            // which there is no slice; its pool lives as long as the caller's borrow.
            TransferOp::Read => unsafe { libc::preadv(fd, first, count, offset) },
            // SAFETY: the vectors point into the arena, to frames that the core keeps until the
            // write ends; the kernel only reads them, and so does all other code until then.
            TransferOp::Write { .. } => unsafe { libc::pwritev2(fd, first, count, offset, flags) },
        };
        bytes_or_errno(bytes)
    }
}

fn bytes_or_errno(bytes: isize) -> Result<u32, i32> {
    u32::try_from(bytes).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// Returns true for results that are not the device's error: the submitting thread ended, or the
/// kernel asks for a retry.
fn is_again(result: Result<u32, i32>) -> bool {
    matches!(result, Err(libc::ECANCELED | libc::EAGAIN | libc::EINTR))
}

/// Maps the error number of a flush that ends a write. An error by which a file system refuses a
/// write before there is anything to flush would tell the core that the flush has not failed.
fn errno_of_flush(errno: i32) -> i32 {
    match errno {
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => libc::EIO,
        _ => errno,
    }
}

/// Returns true if io_uring refused a transfer for lack of a kernel worker, which counts as a
/// thread of the process, or of memory. The plain system call needs neither.
pub(super) fn is_refused(result: Result<u32, i32>) -> bool {
    matches!(result, Err(libc::ECANCELED | libc::EAGAIN | libc::ENOMEM))
}

/// The smallest transfer size of any device. A short write resumes at a multiple of it.
const SECTOR: u32 = 512;
