//! Waiting of a connection for its client or its mailbox, and the release of idle buffers.
//!
//! A connection returns unused bytes to the server's budget before it sleeps.

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::event::PollFlags;

use super::end::ConnectionEnd;
use super::receive_buffer;
use super::wait_mode::{GATHER, SPIN, WaitMode};
use super::{Connection, WaitFor};
use crate::clock::now;
use crate::server_state::ServerState;
use crate::socket::wait;

impl Connection<'_> {
    /// Blocks until there is work to do.
    pub(super) fn wait(&mut self, need: WaitFor) -> Result<(), ConnectionEnd> {
        self.output.budget.rest();
        let wants_bytes = need == WaitFor::Bytes && !self.is_over;
        if wants_bytes && self.in_hand() == 0 && self.output.is_empty() {
            if self.receive_awake()? {
                self.wait_modes.turn(now());
                return Ok(());
            }
            let bytes = match self.socket.recv(self.input.room()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.idle(),
                bytes => bytes?,
            };
            self.wait_modes.turn(now());
            return self.received(bytes);
        }
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, wants_bytes);
        wanted.set(PollFlags::OUT, !self.output.is_empty());
        if wanted.is_empty() && self.is_over {
            // The client has closed its side, so the socket has no more events.
            wait([(self.mailbox.as_fd(), PollFlags::IN)], None)?;
            return Ok(());
        }
        let fds = [(self.socket.as_fd(), wanted), (self.mailbox.as_fd(), PollFlags::IN)];
        let [socket, _] = wait(fds, None)?;
        if wants_bytes && socket.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.try_receive()?;
        } else if socket.intersects(PollFlags::HUP | PollFlags::ERR) {
            // The client is gone and cannot receive replies.
            return Err(ConnectionEnd::Io(io::ErrorKind::ConnectionReset.into()));
        }
        Ok(())
    }

    /// Handles a receive time-out: the first one shrinks the buffers, the idle limit ends the
    /// connection.
    fn idle(&mut self) -> Result<(), ConnectionEnd> {
        let (busy, limit) = (busy_for(self.shared), self.shared.limits.idle_timeout);
        if limit.is_some_and(|limit| self.is_resting || limit <= busy) {
            return Err(ConnectionEnd::Idle);
        }
        self.is_resting = true;
        self.output.shrink();
        if self.input.shrink() {
            self.output.budget.give(GROWTH);
        }
        Ok(self.socket.set_idle(limit.map(|limit| limit - busy))?)
    }

    /// Polls for bytes briefly without sleeping, if that is the fastest mode for this client.
    fn receive_awake(&mut self) -> Result<bool, ConnectionEnd> {
        match self.wait_modes.mode() {
            WaitMode::Sleep => Ok(false),
            WaitMode::Yield => {
                for _ in 0..YIELDS {
                    std::thread::yield_now();
                    if self.try_receive()? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            mode @ (WaitMode::Spin | WaitMode::Gather) => {
                let Some(_spinner) = self.shared.spinners.join() else { return Ok(false) };
                let began = now();
                while mode == WaitMode::Gather && now().duration_since(began) < GATHER {
                    std::hint::spin_loop();
                }
                while now().duration_since(began) < SPIN {
                    if self.try_receive()? {
                        return Ok(true);
                    }
                    (0..PAUSES).for_each(|_| std::hint::spin_loop());
                }
                Ok(false)
            }
        }
    }

    /// Receives available bytes; returns false if there are none.
    fn try_receive(&mut self) -> Result<bool, ConnectionEnd> {
        let received = self.socket.try_recv(self.input.room())?;
        if let Some(bytes) = received {
            self.received(bytes)?;
        }
        Ok(received.is_some())
    }

    fn received(&mut self, bytes: usize) -> Result<(), ConnectionEnd> {
        self.input.received(bytes);
        self.is_over |= bytes == 0;
        if std::mem::take(&mut self.is_resting) {
            self.socket.set_idle(Some(busy_for(self.shared)))?;
        }
        Ok(())
    }
}

/// Returns the time for which an idle connection keeps its buffers.
pub(super) fn busy_for(shared: &ServerState) -> Duration {
    shared.limits.idle_timeout.map_or(BUSY, |timeout| timeout.min(BUSY))
}

const BUSY: Duration = Duration::from_secs(1);
/// Additional input buffer of a connection that writes.
pub(super) const GROWTH: usize = receive_buffer::LARGE_INPUT - receive_buffer::INPUT;
/// Calls of `sched_yield` between two polls: a few microseconds on an idle processor, and none
/// taken from a busy one.
const YIELDS: u32 = 8;
/// Spin-loop hints between two polls of the socket, because the sender needs the socket's lock too.
const PAUSES: u32 = 16;
