//! Writes: their bytes go to the cache as they come.
//!
//! In:    a request, then its payload in whatever parts the client sends it.
//! Out:   its reply.
//! Never: more than one buffer of payload; a wait for room in the cache, which the blocking pool
//!        does while this client is not received from.

use super::Connection;
use super::receive_buffer::{INPUT, LARGE_INPUT};
use super::wait::GROWTH;
use crate::blocking_pool::BlockingWork;
use crate::nbd::request::NbdRequest;
use crate::nbd::{NbdErrno, reply};

/// A write whose bytes are still coming.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    cookie: u64,
    /// Where the next bytes go.
    at: u64,
    /// How many bytes are still to come.
    left: usize,
    fua: bool,
    /// If it failed, what is left of it is thrown away.
    result: Result<(), NbdErrno>,
    /// A part of it is in the blocking pool.
    is_waiting: bool,
}

impl Incoming {
    pub(super) fn new(request: &NbdRequest, fua: bool) -> Self {
        let left = usize::try_from(request.payload())
            .expect("a request's length is a u32, and usize has 32 bits at least");
        let NbdRequest { cookie, offset: at, .. } = *request;
        Self { cookie, at, left, fua, result: Ok(()), is_waiting: false }
    }

    pub(super) fn refused(request: &NbdRequest, errno: NbdErrno) -> Self {
        Self { result: Err(errno), ..Self::new(request, false) }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }
}

impl Connection<'_> {
    /// Takes bytes of a write; false if too few are there.
    pub(super) fn take_payload(&mut self) -> bool {
        let Some(mut write) = self.incoming else { return true };
        let mut here = write.left.min(self.input.bytes().len());
        if write.result.is_ok() && here < write.left {
            let is_long = write.left > POOR;
            if is_long && !self.input.is_large() && self.output.budget.take(GROWTH) {
                self.input.grow(LARGE_INPUT);
            }
            if here < if self.input.is_large() { ENOUGH } else { POOR } {
                self.input.grow(INPUT);
                return false;
            }
            // Whole pages: the rest of the last one is still coming.
            let end = (write.at + here as u64) & !(PAGE - 1);
            here = usize::try_from(end - write.at)
                .expect("no more payload comes than the request has");
        }
        if here == 0 && write.left > 0 {
            return false;
        }
        let mut work = None;
        let mut paid = 0;
        if write.result.is_ok() {
            let bytes = &self.input.bytes()[..here];
            let taken =
                if write.fua { Ok(0) } else { self.shared.store.try_write(bytes, write.at) };
            match taken {
                Ok(taken) if taken < here => {
                    let (offset, fua) = (write.at + taken as u64, write.fua);
                    if self.output.budget.take(here - taken) {
                        paid = here - taken;
                    } else if here - taken > POOR_PART {
                        let end = (offset + POOR_PART as u64) & !(PAGE - 1);
                        here = usize::try_from(end - write.at)
                            .expect("no more is taken than the payload has");
                    }
                    let bytes = self.input.bytes()[taken..here].to_vec();
                    work = Some(if fua && paid > 0 && here == write.left {
                        BlockingWork::Write { cookie: write.cookie, bytes, offset }
                    } else {
                        write.is_waiting = true;
                        BlockingWork::Part { bytes, offset, fua }
                    });
                }
                Ok(_) => {}
                Err(errno) => write.result = Err(errno),
            }
            self.counters.bytes_written += here as u64;
        }
        self.input.consume(here);
        write.at += here as u64;
        write.left -= here;
        self.incoming = Some(write);
        match work {
            Some(work @ BlockingWork::Write { .. }) => {
                // Its reply comes from there.
                self.incoming = None;
                self.give_away(work, paid);
            }
            Some(work) => self.give_away(work, paid),
            None => self.end_write(),
        }
        true
    }

    /// The part of the write that had to wait is written, or not.
    pub(super) fn written(&mut self, result: Result<(), NbdErrno>) {
        if let Some(write) = &mut self.incoming {
            write.is_waiting = false;
            write.result = result;
            self.end_write();
        }
    }

    /// Replies to the write, if it is over.
    fn end_write(&mut self) {
        let Some(Incoming { cookie, left: 0, result, .. }) = self.incoming else { return };
        self.incoming = None;
        self.counters.errors += u64::from(result.is_err());
        self.output.push(&reply::simple(cookie, result));
    }
}

const PAGE: u64 = 4096;
/// With less than this of a long payload it pays to wait for more.
const ENOUGH: usize = 128 << 10;
/// The same in a small input.
const POOR: usize = 64 << 10;
/// So much of a write is given away if the server's budget is spent; then its client waits for it.
const POOR_PART: usize = 32 << 10;
