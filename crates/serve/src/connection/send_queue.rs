//! Queue of replies to a client, sent in order by one `sendmsg` without gathering them first.
//!
//! Pinned pages do not wait for a slow client: after [`PATIENCE`] without progress they are copied
//! and released.
//!
//! ```text
//!   small   [head|4 KiB|head|4 KiB|head]                 one buffer; adjacent ranges are one part
//!   parts    Small . . . . . . . . . . . Pin Pin Pin Small Owned
//!            ^-- one sendmsg ----------------------------------^
//! ```

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::time::Duration;

use foreread::PageGuard;
use rustix::event::PollFlags;

use crate::budget::{ConnectionBudget, SharedBudget};
use crate::buffer_memory::{BufferMemory, ConnectionBuffer};
use crate::socket::{Socket, wait};

#[derive(Debug)]
pub(crate) struct SendQueue<'s> {
    /// Empty, or [`SMALL`] bytes; the system allocates its pages when they are written.
    small: ConnectionBuffer,
    /// Bytes of `small` in use.
    used: usize,
    parts: VecDeque<SendPart<'s>>,
    /// Bytes queued in all parts.
    bytes: usize,
    pins: usize,
    /// Sent buffers for reuse.
    spare: Vec<Vec<u8>>,
    /// Budget for pins and owned buffers; the small buffer and the spare ones are free.
    pub(super) budget: ConnectionBudget<'s>,
}

#[derive(Debug)]
enum SendPart<'s> {
    Small(Range<usize>),
    /// A pinned page, and the offset of its first unsent byte.
    Pin(PageGuard<'s>, usize),
    /// A buffer, the offset of its first unsent byte, and its cost in bytes of the budget.
    Owned(Vec<u8>, usize, usize),
}

impl<'s> SendQueue<'s> {
    pub(crate) fn new(budget: &'s SharedBudget, memory: &BufferMemory) -> Self {
        let (parts, spare, budget) = (VecDeque::new(), Vec::new(), ConnectionBudget::new(budget));
        Self { small: memory.buffer(0), used: 0, parts, bytes: 0, pins: 0, spare, budget }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Queues a copy of `bytes`.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match self.room(bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.take_room(bytes.len());
            }
            // Rare: callers check `has_room_for_heads` first.
            None => self.push_owned(bytes.to_vec(), 0),
        }
    }

    /// Returns true if the small buffer has room for the headers of `count` replies.
    pub(crate) fn has_room_for_heads(&self, count: usize) -> bool {
        count * HEAD <= SMALL - self.used
    }

    /// Returns true if the small buffer has room for `len` bytes of data, with reserve for headers.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        len + HEADS <= SMALL - self.used
    }

    /// Discards all replies of a client that has left.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        (self.used, self.bytes, self.pins) = (0, 0, 0);
        self.shrink();
    }

    /// Frees the buffers if the queue is empty.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() {
            self.small.replace(0);
            self.parts = VecDeque::new();
            self.spare = Vec::new();
        }
    }

    /// Returns the next `len` bytes of the small buffer to fill, if it has that many left. They are
    /// queued by [`Self::take_room`].
    pub(crate) fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        let end = self.used + len;
        if self.small.is_empty() {
            self.small.replace(SMALL);
        }
        self.small.get_mut(self.used..end)
    }

    /// Queues `len` bytes that were written into [`Self::room`].
    pub(crate) fn take_room(&mut self, len: usize) {
        let start = self.used;
        self.used += len;
        self.bytes += len;
        match self.parts.back_mut() {
            Some(SendPart::Small(range)) if range.end == start => range.end = self.used,
            _ => self.parts.push_back(SendPart::Small(start..self.used)),
        }
    }

    /// Queues data that were written at offset `from` of the empty small buffer, with a header,
    /// which is copied in front of them.
    pub(crate) fn push_before(&mut self, head: &[u8], from: usize, len: usize) {
        assert_eq!(self.used, 0, "the small buffer is empty");
        self.small[from - head.len()..from].copy_from_slice(head);
        self.used = from + len;
        self.bytes += head.len() + len;
        self.parts.push_back(SendPart::Small(from - head.len()..self.used));
    }

    /// Queues a buffer. The caller has taken `cost` bytes from the budget; they are returned once
    /// it is sent.
    pub(crate) fn push_owned(&mut self, bytes: Vec<u8>, cost: usize) {
        self.bytes += bytes.len();
        self.parts.push_back(SendPart::Owned(bytes, 0, cost));
    }

    /// Queues pinned pages. The caller has taken their length from the budget, because they may
    /// have to be copied.
    pub(crate) fn push_pins(&mut self, pins: &mut Vec<PageGuard<'s>>) {
        for pin in pins.drain(..) {
            self.bytes += pin.len();
            self.pins += 1;
            self.parts.push_back(SendPart::Pin(pin, 0));
        }
    }

    /// Returns a buffer of this length with undefined contents.
    pub(crate) fn buffer(&mut self, len: usize) -> Vec<u8> {
        match self.spare.pop() {
            // A larger one would hold more memory than the budget counts.
            Some(buffer) if buffer.len() == len => buffer,
            _ => vec![0; len],
        }
    }

    /// Keeps a buffer for reuse, or frees it.
    pub(crate) fn give_back(&mut self, buffer: Vec<u8>) {
        if self.spare.first().is_some_and(|other| other.len() != buffer.len()) {
            self.spare.clear();
        }
        if (self.spare.len() + 1) * buffer.capacity() <= MOST_SPARE {
            self.spare.push(buffer);
        }
    }

    /// Sends until the socket is full. With pinned pages queued, blocks for room as long as the
    /// client makes progress, then copies the rest and releases the pages.
    ///
    /// It blocks because a socket's buffer is smaller than one large reply, and a client that reads
    /// empties it faster than the rest could be copied.
    pub(crate) fn send(&mut self, socket: &Socket) -> io::Result<()> {
        let mut waits = 0;
        while self.bytes > 0 {
            let sent = self.send_once(socket)?;
            self.sent(sent);
            // The kernel takes less than offered only if the socket is full.
            if sent > 0 && self.parts.len() > MOST_PARTS {
                continue;
            }
            if self.bytes == 0 || self.pins == 0 {
                break;
            }
            waits += 1;
            let wanted = [(socket.as_fd(), PollFlags::OUT)];
            if waits > MOST_WAITS || wait(wanted, Some(PATIENCE))?[0].is_empty() {
                self.unpin();
                break;
            }
        }
        Ok(())
    }

    fn send_once(&self, socket: &Socket) -> io::Result<usize> {
        let slice = |part| match part {
            &SendPart::Small(Range { start, end }) => &self.small[start..end],
            SendPart::Pin(pin, from) => &pin[*from..],
            SendPart::Owned(bytes, from, _) => &bytes[*from..],
        };
        if let [part] = self.parts.as_slices().0
            && self.parts.len() == 1
        {
            return socket.try_send(&[IoSlice::new(slice(part))]);
        }
        let parts: Vec<IoSlice<'_>> =
            self.parts.iter().take(MOST_PARTS).map(|part| IoSlice::new(slice(part))).collect();
        socket.try_send(&parts)
    }

    fn sent(&mut self, mut bytes: usize) {
        self.bytes -= bytes;
        while bytes > 0 {
            let part =
                self.parts.front_mut().expect("the kernel sends no more than the queue holds");
            let (len, from) = match part {
                SendPart::Small(range) => (range.len(), &mut range.start),
                SendPart::Pin(pin, from) => (pin.len() - *from, from),
                SendPart::Owned(owned, from, _) => (owned.len() - *from, from),
            };
            if bytes < len {
                *from += bytes;
                return;
            }
            bytes -= len;
            match self.parts.pop_front() {
                Some(SendPart::Owned(buffer, _, cost)) => {
                    self.budget.give(cost);
                    self.give_back(buffer);
                }
                Some(SendPart::Pin(pin, _)) => {
                    self.budget.give(pin.len());
                    self.pins -= 1;
                }
                Some(SendPart::Small(_)) | None => {}
            }
        }
        if self.bytes == 0 {
            self.parts.clear();
            self.used = 0;
        }
    }

    /// Replaces pinned pages by copies.
    fn unpin(&mut self) {
        for part in &mut self.parts {
            if let SendPart::Pin(pin, from) = part {
                *part = SendPart::Owned(pin[*from..].to_vec(), 0, pin.len());
            }
        }
        self.pins = 0;
    }
}

/// Size of the small buffer: forty replies of 4 KiB, or a piece of one when the budget is spent.
const SMALL: usize = 192 << 10;
/// Bytes of the small buffer reserved for headers.
const HEADS: usize = 32 << 10;
/// Length limit of a header.
const HEAD: usize = 32;
/// Parts of one `sendmsg` (`IOV_MAX`).
const MOST_PARTS: usize = 1024;
/// Longest wait for room in the socket. A client that reads empties half of a socket's buffer in a
/// twentieth of it, even if it must wait for a processor.
const PATIENCE: Duration = Duration::from_millis(5);
/// Waits of one call. Each ends with at least 10 KiB of room, so the largest reply fits; a client
/// pins pages for a third of a second at most.
const MOST_WAITS: u32 = 64;
/// Limit of the spare buffers together, in bytes.
const MOST_SPARE: usize = 32 << 10;
