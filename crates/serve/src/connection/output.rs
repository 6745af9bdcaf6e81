//! What a client is owed: replies that go out in one call, from where their data lie.
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

use foreread::Pin;
use rustix::event::PollFlags;

use crate::socket::{Socket, wait};

#[derive(Debug)]
pub(crate) struct Output<'s> {
    small: Vec<u8>,
    /// How much of it is in use.
    used: usize,
    parts: VecDeque<Part<'s>>,
    /// How many bytes there are in all.
    bytes: usize,
    pins: usize,
    /// Buffers that were sent, to be used again.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
enum Part<'s> {
    Small(Range<usize>),
    /// From here on.
    Pin(Pin<'s>, usize),
    Owned(Vec<u8>, usize),
}

impl<'s> Output<'s> {
    pub(crate) fn new() -> Self {
        let (parts, spare) = (VecDeque::new(), Vec::new());
        Self { small: Vec::new(), used: 0, parts, bytes: 0, pins: 0, spare }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies some bytes.
    ///
    /// What the small buffer has no room for goes to buffers of its own, with its neighbours: half a
    /// million replies of sixteen bytes would otherwise cost five times what they weigh.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if let Some(room) = self.room(bytes.len()) {
            room.copy_from_slice(bytes);
            self.take_room(bytes.len());
            return;
        }
        if let Some(Part::Owned(last, _)) = self.parts.back_mut()
            && last.capacity() - last.len() >= bytes.len()
        {
            last.extend_from_slice(bytes);
            self.bytes += bytes.len();
            return;
        }
        let mut owned = Vec::with_capacity(bytes.len().max(NEIGHBOURS));
        owned.extend_from_slice(bytes);
        self.push_owned(owned);
    }

    /// Room for some bytes in the small buffer, if it has so much. Nothing is in there until
    /// [`Self::take_room`].
    pub(crate) fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        let end = self.used + len;
        if end > self.small.len() && end <= SMALL {
            // Once for most clients, whose replies are few at a time.
            self.small.resize(end.next_power_of_two().clamp(SMALL / 32, SMALL), 0);
        }
        self.small.get_mut(self.used..end)
    }

    /// The room was filled.
    pub(crate) fn take_room(&mut self, len: usize) {
        let start = self.used;
        self.used += len;
        self.bytes += len;
        match self.parts.back_mut() {
            Some(Part::Small(range)) if range.end == start => range.end = self.used,
            _ => self.parts.push_back(Part::Small(start..self.used)),
        }
    }

    pub(crate) fn push_owned(&mut self, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        self.parts.push_back(Part::Owned(bytes, 0));
    }

    pub(crate) fn push_pins(&mut self, pins: &mut Vec<Pin<'s>>) {
        for pin in pins.drain(..) {
            self.bytes += pin.len();
            self.pins += 1;
            self.parts.push_back(Part::Pin(pin, 0));
        }
    }

    /// A buffer of that length, with anything in it.
    pub(crate) fn buffer(&mut self, len: usize) -> Vec<u8> {
        match self.spare.pop() {
            Some(mut buffer) => {
                buffer.resize(len, 0);
                buffer
            }
            None => vec![0; len],
        }
    }

    /// A buffer that is not needed.
    pub(crate) fn give_back(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < MOST_SPARE && buffer.capacity() <= MOST_SPARE_LEN {
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
            &Part::Small(Range { start, end }) => &self.small[start..end],
            Part::Pin(pin, from) => &pin[*from..],
            Part::Owned(bytes, from) => &bytes[*from..],
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
            let part = self.parts.front_mut().expect("no more is sent than there is");
            let (len, from) = match part {
                Part::Small(range) => (range.len(), &mut range.start),
                Part::Pin(pin, from) => (pin.len() - *from, from),
                Part::Owned(owned, from) => (owned.len() - *from, from),
            };
            if bytes < len {
                *from += bytes;
                return;
            }
            bytes -= len;
            match self.parts.pop_front() {
                Some(Part::Owned(buffer, _)) => self.give_back(buffer),
                Some(Part::Pin(..)) => self.pins -= 1,
                Some(Part::Small(_)) | None => {}
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
            if let Part::Pin(pin, from) = part {
                *part = Part::Owned(pin[*from..].to_vec(), 0);
            }
        }
        self.pins = 0;
    }
}

/// Sixty replies of 4 KiB. What does not fit has a buffer of its own.
const SMALL: usize = 256 << 10;
/// Some hundred replies without data; beside a read that is too long to be copied, not much.
const NEIGHBOURS: usize = 4 << 10;
/// As many as the kernel takes at once (`IOV_MAX`).
const MOST_PARTS: usize = 1024;
/// A client that reads empties half of a socket's buffer in a twentieth of this, even if it has to
/// wait for its turn on the processor.
const PATIENCE: Duration = Duration::from_millis(5);
/// Each wait ends with room for some ten KiB at least: enough for the largest reply. So pages are
/// pinned for a client for a third of a second at most.
const MOST_WAITS: u32 = 64;
const MOST_SPARE: usize = 8;
const MOST_SPARE_LEN: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn many_small_replies_are_few_buffers_and_keep_their_order() {
        let mut output = Output::new();
        let number = |n: u32| n.to_be_bytes();
        for n in 0..400_000 {
            output.push(&number(n));
        }
        let most = 1 + (output.bytes() - SMALL).div_ceil(NEIGHBOURS);
        assert!(output.parts.len() <= most, "{} parts", output.parts.len());
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).map(|_| all)
        });
        let socket = Socket::unix(ours.into());
        while !output.is_empty() {
            output.send(&socket).expect("somebody reads");
            wait([(socket.as_fd(), PollFlags::OUT)], None).expect("a poll");
        }
        drop(socket);
        let sent = reader.join().expect("no panic").expect("an end");
        assert!(sent.chunks_exact(4).eq((0..400_000).map(number)));
    }
}
