//! The handshake over a socket.
//!
//! The time limit covers the whole handshake, however slowly the client sends.

use rustix::event::PollFlags;
use std::io::IoSlice;
use std::os::fd::AsFd as _;
use std::time::Instant;

use super::end::ConnectionEnd;
use super::receive_buffer::ReceiveBuffer;
use crate::clock;
use crate::nbd::handshake::{Handshake, HandshakeStep, Negotiated, Offer};
use crate::open_connections::ServiceStart;
use crate::server_state::ServerState;
use crate::socket::{Socket, wait};

pub(super) fn negotiate(
    shared: &ServerState,
    socket: &Socket,
    input: &mut ReceiveBuffer,
    number: u32,
    has_control: bool,
) -> Result<Option<Negotiated>, ConnectionEnd> {
    let deadline = clock::now() + shared.limits.handshake_timeout;
    let export = &shared.export;
    let offer = Offer {
        name: &export.name,
        description: &export.description,
        size: export.range.end - export.range.start,
        read_only: export.read_only,
        has_control: has_control && shared.answer.is_some(),
    };
    let mut out = Vec::new();
    let mut handshake = Handshake::begin(&mut out);
    loop {
        let (used, step) = handshake.step(input.bytes(), &offer, &mut out)?;
        let (end, is_answered) = match step {
            HandshakeStep::More => (None, false),
            HandshakeStep::Answered => (None, true),
            HandshakeStep::Control(text) => {
                let answer = shared
                    .answer
                    .as_ref()
                    .expect("control requests are offered only where a handler is set");
                handshake.answer(&answer(text), &mut out);
                (None, true)
            }
            HandshakeStep::Agreed(agreed) => match shared.begin_service(number) {
                ServiceStart::Served => (Some(Some(agreed)), false),
                ServiceStart::Full => return Err(ConnectionEnd::Full),
                ServiceStart::Evicted => return Ok(None),
            },
            HandshakeStep::End => (Some(None), false),
        };
        input.consume(used);
        if is_answered {
            // Bounds the replies to a client that sends options and reads nothing.
            if out.len() >= MOST_ANSWERS {
                send(socket, &mut out, deadline)?;
            }
            continue;
        }
        send(socket, &mut out, deadline)?;
        if let Some(end) = end {
            return Ok(end);
        }
        wait_until(socket, PollFlags::IN, deadline)?;
        match socket.try_recv(input.room())? {
            Some(0) if input.bytes().is_empty() => return Ok(None),
            Some(0) => return Err(ConnectionEnd::Cut),
            Some(bytes) => input.received(bytes),
            None => {}
        }
    }
}

/// Sends all of it.
fn send(socket: &Socket, out: &mut Vec<u8>, deadline: Instant) -> Result<(), ConnectionEnd> {
    let mut sent = 0;
    while sent < out.len() {
        let bytes = socket.try_send(&[IoSlice::new(&out[sent..])])?;
        if bytes == 0 {
            wait_until(socket, PollFlags::OUT, deadline)?;
        }
        sent += bytes;
    }
    out.clear();
    Ok(())
}

fn wait_until(socket: &Socket, flags: PollFlags, deadline: Instant) -> Result<(), ConnectionEnd> {
    let left = deadline.saturating_duration_since(clock::now());
    if left.is_zero() {
        return Err(ConnectionEnd::TooSlow);
    }
    wait([(socket.as_fd(), flags)], Some(left))?;
    Ok(())
}

/// Replies are sent once they have this many bytes.
const MOST_ANSWERS: usize = 64 << 10;
