//! Read requests: hits, misses, and reads longer than one piece.
//!
//! No frame is held while a reply waits for its client.
//!
//! ```text
//!   <= 16 KiB   copied next to the reply header: one part, one buffer
//!   <= 1 MiB    pinned pages, without a copy
//!   > 1 MiB     pieces of 1 MiB, one after the other, while no other read is in flight
//!   no memory   pieces of 128 KiB, in the small buffer, while no other reply waits
//! ```

use std::os::fd::AsFd as _;
use std::task::{Context, Poll};

use foreread::{OwnedRead, ReadError, ReadStream};
use rustix::event::PollFlags;

use super::Connection;
use super::end::ConnectionEnd;
use super::task_slots::TaskSlots;
use crate::blocking_pool::BlockingWork;
use crate::mailbox::{self, Mail};
use crate::nbd::request::NbdRequest;
use crate::nbd::{NbdErrno, reply, wire};
use crate::socket::wait;
use crate::store::Store;

/// Reads in flight.
pub(super) type PendingReads = TaskSlots<(NbdRequest, OwnedRead)>;

impl NbdRequest {
    /// Returns true if errors are sent as chunks once structured replies are negotiated.
    pub(super) fn is_answered_in_chunks(&self) -> bool {
        matches!(self.command, wire::CMD_READ | wire::CMD_BLOCK_STATUS)
    }

    fn bytes_wanted(&self) -> usize {
        usize::try_from(self.len).expect("the length of a read was checked when it was parsed")
    }
}

impl Connection<'_> {
    /// Returns true if a long read must wait for the fetches in flight: it blocks the thread that
    /// completes them.
    pub(super) fn must_wait_for_fetches(&self, request: &NbdRequest) -> bool {
        request.command == wire::CMD_READ
            && request.bytes_wanted() > PIECE
            && self.pending.count() > 0
    }

    /// Takes the memory that a read needs beyond the connection's fixed buffers and returns its
    /// size. None: the read must wait for memory, or until the connection is idle and the small
    /// buffer suffices.
    pub(super) fn price_of_read(&mut self, request: &NbdRequest) -> Option<usize> {
        let len = request.bytes_wanted().min(PIECE);
        let is_first = self.pending.count() == 0;
        if len <= COPIED && is_first && self.output.has_room(len + self.head_len()) {
            return Some(0);
        }
        if self.output.budget.take(len) {
            return Some(len);
        }
        (is_first && self.output.is_empty()).then_some(0)
    }

    /// Serves a read; `paid` is the result of [`Self::price_of_read`].
    pub(super) fn read(
        &mut self,
        request: &NbdRequest,
        whole: bool,
        may_wait: bool,
        paid: usize,
    ) -> Result<(), ConnectionEnd> {
        let len = request.bytes_wanted();
        if len > PIECE && whole && self.agreed.structured {
            self.output.budget.give(paid);
            self.reply_error(request, NbdErrno::Overflow);
            return Ok(());
        }
        if len > PIECE || (paid == 0 && len > COPIED) {
            return self.read_in_pieces(request, whole, paid);
        }
        if !self.shared.store.is_in_file(&(request.offset..request.end())) {
            let NbdRequest { cookie, offset, .. } = *request;
            let chunk_at = self.chunk_at(request);
            self.counters.bytes_read += len as u64;
            self.begin_work(BlockingWork::Read { cookie, offset, len, chunk_at }, paid);
            return Ok(());
        }
        if self.hit(request, len, paid) {
            return Ok(());
        }
        if paid == 0 && !self.output.budget.take(len) {
            return self.read_in_pieces(request, whole, 0);
        }
        let mut buffer = self.output.buffer(len);
        if may_wait {
            // Blocking in `read_at` makes this thread drive the ring, which is the fastest path.
            self.output.send(self.socket)?;
            self.settle();
            self.output.budget.rest();
            let read = self.stream.read_at(&mut buffer, request.offset);
            self.end_read(request, buffer, &read);
        } else {
            self.fetch(request, buffer);
        }
        Ok(())
    }

    /// Answers a read from the cache; returns false on a miss.
    fn hit(&mut self, request: &NbdRequest, len: usize, paid: usize) -> bool {
        let (offset, size) = (request.offset, self.head_len());
        let chunk_at = self.chunk_at(request);
        if len <= COPIED {
            if self.output.has_room(size + len)
                && let Some(room) = self.output.room(size + len)
            {
                if !self.stream.try_read_at(&mut room[size..], offset) {
                    return false;
                }
                put_head(room, request, chunk_at);
                self.output.take_room(size + len);
                self.output.budget.give(paid);
                self.counters.bytes_read += len as u64;
                return true;
            }
        } else if self.output.bytes() < super::SEND_AT {
            let mut pins = Vec::with_capacity(len / 4096 + 2);
            if self.stream.try_pin_all(offset, len, &mut pins) {
                self.push_head(request);
                self.output.push_pins(&mut pins);
                self.counters.bytes_read += len as u64;
                return true;
            }
        }
        if paid == 0 {
            return false;
        }
        // A miss, or too many bytes are queued to send or pinned.
        let mut buffer = self.output.buffer(len);
        let is_hit = self.stream.try_read_at(&mut buffer, offset);
        if is_hit {
            self.end_read(request, buffer, &Ok(len));
        } else {
            self.output.give_back(buffer);
        }
        is_hit
    }

    fn fetch(&mut self, request: &NbdRequest, buffer: Vec<u8>) {
        let mut fetch = self.stream.read_owned(buffer, request.offset);
        let new_waker = |slot| mailbox::waker(&self.mailbox, Mail::ReadWoken, slot);
        let slot = self.pending.reserve(new_waker);
        match fetch.poll(self.stream, &Context::from_waker(self.pending.waker(slot))) {
            Poll::Pending => {
                self.pending.put(slot, (*request, fetch));
                self.kept += request.bytes_wanted();
            }
            Poll::Ready(read) => {
                self.pending.release(slot);
                self.end_read(request, fetch.into_buffer(), &read);
            }
        }
    }

    /// Polls the fetch in a slot. The wake-up may be stale: another read may occupy the slot by
    /// now.
    pub(super) fn poll_fetch(&mut self, slot: usize) {
        let Some(((_, fetch), waker)) = self.pending.get_mut(slot) else { return };
        if let Poll::Ready(read) = fetch.poll(self.stream, &Context::from_waker(waker)) {
            let (request, fetch) = self.pending.take(slot);
            self.kept -= request.bytes_wanted();
            self.end_read(&request, fetch.into_buffer(), &read);
        }
    }

    /// Queues the reply of a read into `buffer`, whose length was taken from the budget.
    fn end_read(&mut self, request: &NbdRequest, buffer: Vec<u8>, read: &Result<usize, ReadError>) {
        if !is_all(read, buffer.len()) {
            self.reply_error(request, NbdErrno::Io);
            self.output.budget.give(buffer.len());
            self.output.give_back(buffer);
            return;
        }
        self.counters.bytes_read += buffer.len() as u64;
        self.push_head(request);
        let len = buffer.len();
        if len <= COPIED && self.output.has_room(len) {
            self.output.push(&buffer);
            self.output.budget.give(len);
            self.output.give_back(buffer);
        } else {
            self.output.push_owned(buffer, len);
        }
    }

    /// Serves a read that is too long for one buffer, or for which no memory is free.
    ///
    /// ```text
    ///   chunks    [head|1 MiB] [head|1 MiB] [head|rest]      an error has a chunk of its own
    ///   simple    [head|1 MiB   1 MiB   rest]                after the head there are no errors
    /// ```
    ///
    /// Each piece takes memory from the budget separately. If the budget is spent, the piece is
    /// shorter and is read into the small buffer once that is empty, so every read completes
    /// regardless of other connections.
    fn read_in_pieces(
        &mut self,
        request: &NbdRequest,
        whole: bool,
        mut paid: usize,
    ) -> Result<(), ConnectionEnd> {
        let (end, in_chunks) = (request.end(), self.agreed.structured && !whole);
        let mut at = request.offset;
        while at < end {
            let mut len = PIECE.min(usize::try_from(end - at).unwrap_or(PIECE));
            if paid == 0 && self.output.budget.take(len) {
                paid = len;
            }
            let mut pins = Vec::new();
            let mut buffer = Vec::new();
            let mut is_read = true;
            let store = &*self.shared.store;
            if paid == 0 {
                self.send_down_to(0)?;
                len = len.min(POOR_PIECE);
                let room = self.output.room(reply::DATA_CHUNK + len);
                let room = room.expect("the buffer was just emptied, and holds a small piece");
                is_read = fill(self.stream, store, &mut room[reply::DATA_CHUNK..], at);
            } else if !store.is_in_file(&(at..at + len as u64))
                || !self.stream.try_pin_all(at, len, &mut pins)
            {
                self.output.send(self.socket)?;
                buffer = self.output.buffer(len);
                self.output.budget.rest();
                is_read = fill(self.stream, store, &mut buffer, at);
            }
            if !is_read {
                self.output.budget.give(paid);
                return self.end_in_pieces(request, at, in_chunks);
            }
            let mut head = [0; reply::DATA_CHUNK];
            let mut head_len = 0;
            if in_chunks {
                let is_last = at + len as u64 == end;
                head = reply::data(request.cookie, self.in_export(at), as_u32(len), is_last);
                head_len = head.len();
            } else if at == request.offset {
                put_head(&mut head, request, self.chunk_at(request));
                head_len = self.head_len();
            }
            if paid == 0 {
                self.output.push_before(&head[..head_len], reply::DATA_CHUNK, len);
            } else {
                self.output.push(&head[..head_len]);
                self.output.push_pins(&mut pins);
                if !buffer.is_empty() {
                    self.output.push_owned(buffer, len);
                }
            }
            paid = 0;
            self.counters.bytes_read += len as u64;
            at += len as u64;
            self.send_down_to(PIECE)?;
        }
        Ok(())
    }

    /// Answers a read whose piece at `at` failed. A simple reply cannot carry an error after its
    /// first piece, so the connection ends.
    fn end_in_pieces(
        &mut self,
        request: &NbdRequest,
        at: u64,
        in_chunks: bool,
    ) -> Result<(), ConnectionEnd> {
        if at == request.offset && !in_chunks {
            self.reply_error(request, NbdErrno::Io);
            return Ok(());
        }
        self.counters.errors += 1;
        if !in_chunks {
            return Err(ConnectionEnd::Broken);
        }
        let at = self.in_export(at);
        self.output.push(&reply::error_at(request.cookie, NbdErrno::Io, at));
        Ok(())
    }

    /// Sends until at most `bytes` remain queued.
    fn send_down_to(&mut self, bytes: usize) -> Result<(), ConnectionEnd> {
        loop {
            self.output.send(self.socket)?;
            if self.output.bytes() <= bytes {
                return Ok(());
            }
            self.settle();
            self.output.budget.rest();
            wait([(self.socket.as_fd(), PollFlags::OUT)], None)?;
        }
    }

    /// Translates a file offset into an offset of the export.
    fn in_export(&self, offset: u64) -> u64 {
        offset - self.shared.export.range.start
    }

    /// Returns the export offset of a chunk that holds the whole read; None for a simple reply.
    fn chunk_at(&self, request: &NbdRequest) -> Option<u64> {
        self.agreed.structured.then(|| self.in_export(request.offset))
    }

    fn head_len(&self) -> usize {
        if self.agreed.structured { reply::DATA_CHUNK } else { reply::SIMPLE }
    }

    fn push_head(&mut self, request: &NbdRequest) {
        let mut head = [0; reply::DATA_CHUNK];
        let len = self.head_len();
        put_head(&mut head, request, self.chunk_at(request));
        self.output.push(&head[..len]);
    }
}

fn put_head(room: &mut [u8], request: &NbdRequest, chunk_at: Option<u64>) {
    let NbdRequest { cookie, len, .. } = *request;
    if let Some(offset) = chunk_at {
        room[..reply::DATA_CHUNK].copy_from_slice(&reply::data(cookie, offset, len, true));
    } else {
        room[..reply::SIMPLE].copy_from_slice(&reply::simple(cookie, Ok(())));
    }
}

/// Returns true if the read delivered all `len` bytes. A read of a truncated file does not.
fn is_all(read: &Result<usize, ReadError>, len: usize) -> bool {
    read.as_ref().is_ok_and(|bytes| *bytes == len)
}

/// Reads from the file, or from the overlay if that holds part of it; returns true if complete.
fn fill(stream: &ReadStream, store: &dyn Store, to: &mut [u8], offset: u64) -> bool {
    if store.is_in_file(&(offset..offset + to.len() as u64)) {
        is_all(&stream.read_at(to, offset), to.len())
    } else {
        store.read(to, offset).is_ok()
    }
}

fn as_u32(len: usize) -> u32 {
    u32::try_from(len).expect("a piece of a reply is 1 MiB at most")
}

/// Largest read for which a copy is cheaper than pinning pages and sending a separate part.
const COPIED: usize = 16 << 10;
/// Largest piece of a reply that is read at once.
const PIECE: usize = crate::budget::MOST;
/// Largest piece when the server's budget is spent: it fits into the small buffer.
const POOR_PIECE: usize = 128 << 10;
