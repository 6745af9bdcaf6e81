//! The replies to a client: they go out in one call, from where their data lie.
//!
//! In:    heads, bytes, pins.
//! Out:   the same, in order, as far as the socket takes them.
//! Never: a pin that waits for a client: what does not go out soon is copied, and its pages are
//!        free.
//!
//! ```text
//!   small   [head|4 KiB|head|4 KiB|head]                 one buffer, whose neighbours are one part
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
    /// Empty, or [`SMALL`] bytes, whose pages are taken from the system as they are written.
    small: ConnectionBuffer,
    /// How much of it is in use.
    used: usize,
    parts: VecDeque<SendPart<'s>>,
    /// How many bytes there are in all.
    bytes: usize,
    pins: usize,
    /// Buffers that were sent, to be used again.
    spare: Vec<Vec<u8>>,
    /// What all but the small buffer and the spare ones is taken from.
    pub(super) budget: ConnectionBudget<'s>,
}

#[derive(Debug)]
enum SendPart<'s> {
    Small(Range<usize>),
    /// From here on.
    Pin(PageGuard<'s>, usize),
    /// From here on; and how much it costs.
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

    /// Copies some bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match self.room(bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.take_room(bytes.len());
            }
            // Heads alone, and few: `has_room_for_heads` was asked.
            None => self.push_owned(bytes.to_vec(), 0),
        }
    }

    /// Whether there is room for the heads of so many replies.
    pub(crate) fn has_room_for_heads(&self, count: usize) -> bool {
        count * HEAD <= SMALL - self.used
    }

    /// Whether there is room for so much data, and for heads after it.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        len + HEADS <= SMALL - self.used
    }

    /// Drops everything: the client is gone.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        (self.used, self.bytes, self.pins) = (0, 0, 0);
        self.shrink();
    }

    /// Frees its buffers, if they are empty.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() {
            self.small.replace(0);
            self.parts = VecDeque::new();
            self.spare = Vec::new();
        }
    }

    /// Room for some bytes in the small buffer, if it has so much. Nothing is in there until
    /// [`Self::take_room`].
    pub(crate) fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        let end = self.used + len;
        if self.small.is_empty() {
            self.small.replace(SMALL);
        }
        self.small.get_mut(self.used..end)
    }

    /// The room was filled.
    pub(crate) fn take_room(&mut self, len: usize) {
        let start = self.used;
        self.used += len;
        self.bytes += len;
        match self.parts.back_mut() {
            Some(SendPart::Small(range)) if range.end == start => range.end = self.used,
            _ => self.parts.push_back(SendPart::Small(start..self.used)),
        }
    }

    /// A head, and data that lie in the room that begins `from` bytes behind the small buffer's
    /// start. Nothing else is in there.
    pub(crate) fn push_before(&mut self, head: &[u8], from: usize, len: usize) {
        assert_eq!(self.used, 0, "the small buffer is empty");
        self.small[from - head.len()..from].copy_from_slice(head);
        self.used = from + len;
        self.bytes += head.len() + len;
        self.parts.push_back(SendPart::Small(from - head.len()..self.used));
    }

    /// Its cost was taken from the budget, and goes back when it is sent.
    pub(crate) fn push_owned(&mut self, bytes: Vec<u8>, cost: usize) {
        self.bytes += bytes.len();
        self.parts.push_back(SendPart::Owned(bytes, 0, cost));
    }

    /// Each costs its length, as it may have to be copied.
    pub(crate) fn push_pins(&mut self, pins: &mut Vec<PageGuard<'s>>) {
        for pin in pins.drain(..) {
            self.bytes += pin.len();
            self.pins += 1;
            self.parts.push_back(SendPart::Pin(pin, 0));
        }
    }

    /// A buffer of that length, with anything in it.
    pub(crate) fn buffer(&mut self, len: usize) -> Vec<u8> {
        match self.spare.pop() {
            // One that is larger would cost more than is counted for it.
            Some(buffer) if buffer.len() == len => buffer,
            _ => vec![0; len],
        }
    }

    /// A buffer that is not needed.
    pub(crate) fn give_back(&mut self, buffer: Vec<u8>) {
        if self.spare.first().is_some_and(|other| other.len() != buffer.len()) {
            self.spare.clear();
        }
        if (self.spare.len() + 1) * buffer.capacity() <= MOST_SPARE {
            self.spare.push(buffer);
        }
    }

    /// Sends as much as the socket takes. While there are pins, it is waited for, as long as it
    /// takes something now and then; after that nothing is pinned.
    ///
    /// Why wait at all: a socket's buffer holds less than one large reply, and a client that reads
    /// empties it in less time than it takes to copy the rest.
    pub(crate) fn send(&mut self, socket: &Socket) -> io::Result<()> {
        let mut waits = 0;
        while self.bytes > 0 {
            let sent = self.send_once(socket)?;
            self.sent(sent);
            // The kernel takes less than is offered only if it has no more room.
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

    /// Copies what is pinned.
    fn unpin(&mut self) {
        for part in &mut self.parts {
            if let SendPart::Pin(pin, from) = part {
                *part = SendPart::Owned(pin[*from..].to_vec(), 0, pin.len());
            }
        }
        self.pins = 0;
    }
}

/// Forty replies of 4 KiB, or a piece of one for which there is no other memory.
const SMALL: usize = 192 << 10;
/// What data leave for heads.
const HEADS: usize = 32 << 10;
/// No head is longer.
const HEAD: usize = 32;
/// As many as the kernel takes at once (`IOV_MAX`).
const MOST_PARTS: usize = 1024;
/// A client that reads empties half of a socket's buffer in a twentieth of this, even if it has to
/// wait for its turn on the processor.
const PATIENCE: Duration = Duration::from_millis(5);
/// Each wait ends with room for some ten KiB at least: enough for the largest reply. So pages are
/// pinned for a client for a third of a second at most.
const MOST_WAITS: u32 = 64;
/// Bytes of buffers that are all of the same size, mostly.
const MOST_SPARE: usize = 32 << 10;
