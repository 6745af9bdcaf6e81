//! A connection: one client, one thread.
//!
//! In:    a socket, mail from threads that did something for it.
//! Out:   replies, in any order.
//! Never: more in hand than its limits; a wait for the device while others of its requests could
//!        be served; a page held for a client that does not read.
//!
//! ```text
//!   receive -> all requests that are there --+-- hit    --> output: copied, or pinned
//!      ^                                     +-- miss   --> alone: read here; else a fetch --+
//!      |                                     +-- others --> the blocking pool -------------------+
//!      '-- send all in one call <--- output <--- mailbox <-----------------------------------'
//! ```
//!
//! Why a thread each, and not a few for all: a hit costs less than handing it to another thread,
//! and a client that waits alone for a miss leads the ring itself. A thread that sleeps costs some
//! pages of stack.

pub(crate) mod end;
mod handshake;
mod reads;
mod receive_buffer;
mod send_queue;
mod wait;
pub(crate) mod wait_mode;
mod writes;

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use foreread::ReadStream;
use rustix::event::PollFlags;

use crate::Counters;
use crate::blocking_pool::{BlockingJob, BlockingWork};
use crate::clock::now;
use crate::mailbox::{Mail, Mailbox};
use crate::nbd::handshake::Negotiated;
use crate::nbd::request::{NbdCommand, NbdRequest};
use crate::nbd::{NbdErrno, reply, wire};
use crate::server_state::ServerState;
use crate::socket::{Socket, wait};

use end::ConnectionEnd;
use reads::PendingReads;
use receive_buffer::ReceiveBuffer;
use send_queue::SendQueue;
use wait::busy_for;
use wait_mode::WaitModes;
use writes::Incoming;

pub(crate) struct Connection<'s> {
    shared: &'s ServerState,
    socket: &'s Socket,
    stream: &'s ReadStream,
    agreed: Negotiated,
    input: ReceiveBuffer,
    output: SendQueue<'s>,
    mailbox: Arc<Mailbox>,
    /// Mail that was taken, between two turns nothing.
    mail: Vec<Mail>,
    pending: PendingReads,
    /// Requests in the blocking pool.
    jobs: usize,
    /// Bytes of requests in hand.
    kept: usize,
    /// It waits for memory of the server's budget, in line.
    is_in_line: bool,
    /// It was silent for a while, and has given its buffers back.
    is_resting: bool,
    /// A write whose bytes are still coming.
    incoming: Option<Incoming>,
    /// For how many requests more the client counts as one that pipelines.
    pipelines: u32,
    wait_modes: WaitModes,
    /// Nothing more is received.
    is_over: bool,
    counters: Counters,
}

/// What a connection needs to go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WaitFor {
    /// Bytes of its client.
    Bytes,
    /// That something in hand ends, or is sent.
    Room,
}

/// Serves a client until it leaves.
pub(crate) fn serve(
    shared: &ServerState,
    socket: &Socket,
    number: u32,
    has_control: bool,
) -> Result<(), ConnectionEnd> {
    let mut input = ReceiveBuffer::new(&shared.buffers);
    let Some(agreed) = handshake::negotiate(shared, socket, &mut input, number, has_control)?
    else {
        return Ok(());
    };
    let stream = shared.export.file.stream();
    let submitter = foreread::Submitter(number);
    stream.set_submitter(submitter).map_err(io::Error::from)?;
    socket.set_idle(Some(busy_for(shared)))?;
    let mut connection = Connection {
        shared,
        socket,
        stream: &stream,
        agreed,
        input,
        output: SendQueue::new(&shared.budget, &shared.buffers),
        mailbox: Arc::new(Mailbox::new()?),
        mail: Vec::new(),
        pending: PendingReads::default(),
        jobs: 0,
        kept: 0,
        is_in_line: false,
        is_resting: false,
        incoming: None,
        pipelines: 0,
        wait_modes: WaitModes::new(now()),
        is_over: false,
        counters: Counters::default(),
    };
    let end = connection.run();
    connection.settle();
    connection.end()?;
    end
}

impl Connection<'_> {
    fn run(&mut self) -> Result<(), ConnectionEnd> {
        loop {
            self.take_mail();
            let need = self.handle_input()?;
            let owed = self.output.bytes();
            self.output.send(self.socket)?;
            self.settle();
            if need == WaitFor::Room && self.output.bytes() < owed {
                continue;
            }
            if need == WaitFor::Bytes && (self.is_over || self.shared.is_stopping()) {
                if self.is_done()? {
                    return Ok(());
                }
                self.is_over = true;
            }
            self.wait(need)?;
        }
    }

    /// Handles what has come, as far as the limits go.
    fn handle_input(&mut self) -> Result<WaitFor, ConnectionEnd> {
        loop {
            if let Some(incoming) = &self.incoming {
                if incoming.is_waiting() {
                    return Ok(WaitFor::Room);
                }
                if !self.take_payload() {
                    return Ok(WaitFor::Bytes);
                }
                continue;
            }
            let Some(request) = NbdRequest::parse(self.input.bytes())? else {
                return Ok(WaitFor::Bytes);
            };
            let limits = &self.shared.limits;
            let has_room = self.in_hand() < limits.requests.max(1)
                && self.kept + self.output.bytes() < limits.reply_bytes.max(1);
            let has_room = has_room && self.output.has_room_for_heads(self.in_hand() + SOME);
            if !has_room || self.must_wait_for_fetches(&request) {
                return Ok(WaitFor::Room);
            }
            let Some(paid) = self.price(&request) else { return Ok(WaitFor::Room) };
            self.input.consume(NbdRequest::LEN);
            self.wait_modes.request();
            self.handle(request, paid)?;
            if self.output.bytes() >= SEND_AT {
                self.output.send(self.socket)?;
            }
        }
    }

    /// Takes from the server's budget what a request needs beyond what the connection has anyway.
    /// None: there is not so much. Then what is in hand is ended first; with nothing in hand, the
    /// request is answered piece by piece.
    fn price(&mut self, request: &NbdRequest) -> Option<usize> {
        let mut paid = self.try_price(request);
        if paid.is_none() && !self.is_in_line {
            self.is_in_line = true;
            self.shared.budget.wait(&self.mailbox);
            paid = self.try_price(request);
        }
        paid
    }

    fn try_price(&mut self, request: &NbdRequest) -> Option<usize> {
        match request.command {
            wire::CMD_READ => self.price_of_read(request),
            // One extent is no longer than the head of a reply.
            wire::CMD_BLOCK_STATUS if request.flags & wire::CMD_FLAG_REQ_ONE != 0 => Some(0),
            wire::CMD_BLOCK_STATUS if self.output.budget.take(EXTENTS) => Some(EXTENTS),
            wire::CMD_BLOCK_STATUS => (self.in_hand() == 0 && self.output.is_empty()).then_some(0),
            _ => Some(0),
        }
    }

    fn handle(&mut self, mut request: NbdRequest, paid: usize) -> Result<(), ConnectionEnd> {
        let has_next = self.input.bytes().len() >= NbdRequest::LEN;
        let is_alone = self.in_hand() == 0 && !has_next;
        self.pipelines = if is_alone { self.pipelines.saturating_sub(1) } else { PIPELINES };
        let command = request.check(&self.agreed);
        if command.is_ok() {
            // From here on it is counted from the start of the file.
            request.offset += self.shared.export.range.start;
        }
        let NbdRequest { cookie, offset, .. } = request;
        let range = offset..request.end();
        let work = match command {
            Err(errno) if request.payload() > 0 => {
                assert_eq!(paid, 0, "writes pay for their parts");
                self.incoming = Some(Incoming::refused(&request, errno));
                return Ok(());
            }
            Err(errno) => {
                self.output.budget.give(paid);
                self.reply_error(&request, errno);
                return Ok(());
            }
            Ok(NbdCommand::Read { whole }) => {
                self.counters.reads += 1;
                return self.read(&request, whole, is_alone && self.pipelines == 0, paid);
            }
            Ok(NbdCommand::Write { fua }) => {
                self.counters.writes += 1;
                self.incoming = Some(Incoming::new(&request, fua));
                return Ok(());
            }
            Ok(NbdCommand::Disconnect) => {
                // Bytes after it are ignored.
                self.input.consume(self.input.bytes().len());
                self.is_over = true;
                return Ok(());
            }
            Ok(NbdCommand::Cache) => {
                self.counters.caches += 1;
                let asked = self.shared.export.file.will_need([range]);
                self.reply(&request, asked.map(drop).map_err(|_| NbdErrno::Io));
                return Ok(());
            }
            Ok(NbdCommand::Flush) => {
                self.counters.flushes += 1;
                BlockingWork::Flush { cookie }
            }
            Ok(NbdCommand::Trim { fua }) => {
                self.counters.trims += 1;
                BlockingWork::Trim { cookie, range, fua }
            }
            Ok(NbdCommand::WriteZeroes { fua, may_unmap }) => {
                self.counters.zeroes += 1;
                BlockingWork::Zero { cookie, range, may_unmap, fua }
            }
            Ok(NbdCommand::BlockStatus { one }) => {
                self.counters.block_status += 1;
                BlockingWork::Extents { cookie, range, one }
            }
        };
        self.give_away(work, paid);
        Ok(())
    }

    /// Passes work to the blocking pool.
    fn give_away(&mut self, work: BlockingWork, paid: usize) {
        self.jobs += 1;
        self.kept += paid;
        let job = BlockingJob { work, paid, mailbox: Arc::clone(&self.mailbox) };
        self.shared.pool.add(&self.shared.store, job);
    }

    fn take_mail(&mut self) {
        let mut mail = std::mem::take(&mut self.mail);
        self.mailbox.take(&mut mail);
        for piece in mail.drain(..) {
            match piece {
                Mail::ReadWoken(slot) => self.poll_fetch(slot),
                Mail::Memory => self.is_in_line = false,
                Mail::Written { result, paid } => {
                    self.jobs -= 1;
                    self.kept -= paid;
                    self.output.budget.give(paid);
                    self.written(result);
                }
                Mail::Reply { bytes, paid, is_error } => {
                    self.jobs -= 1;
                    self.kept -= paid;
                    self.counters.errors += u64::from(is_error);
                    if bytes.len() <= reply::DATA_CHUNK || self.output.has_room(bytes.len()) {
                        self.output.push(&bytes);
                        self.output.budget.give(paid);
                    } else {
                        self.output.push_owned(bytes, paid);
                    }
                }
            }
        }
        self.mail = mail;
    }

    /// What others still do for it, they do in memory that is its own: it is there so long.
    fn end(&mut self) -> io::Result<()> {
        self.pending = PendingReads::default();
        self.output.clear();
        if self.jobs > 0 {
            self.socket.shut();
        }
        while self.jobs > 0 {
            wait([(self.mailbox.as_fd(), PollFlags::IN)], None)?;
            self.take_mail();
        }
        Ok(())
    }

    /// Whether a client that sends no more has got all.
    fn is_done(&self) -> Result<bool, ConnectionEnd> {
        if self.is_over && !self.shared.is_stopping() && self.has_part() {
            return Err(ConnectionEnd::Cut);
        }
        Ok(self.in_hand() == 0 && self.output.is_empty())
    }

    /// Whether a request has come in part.
    fn has_part(&self) -> bool {
        self.incoming.is_some() || !self.input.bytes().is_empty()
    }

    /// Requests that are neither answered nor failed.
    fn in_hand(&self) -> usize {
        self.jobs + self.pending.count()
    }

    fn reply(&mut self, request: &NbdRequest, result: Result<(), NbdErrno>) {
        match result {
            Ok(()) => self.output.push(&reply::simple(request.cookie, Ok(()))),
            Err(errno) => self.reply_error(request, errno),
        }
    }

    fn reply_error(&mut self, request: &NbdRequest, errno: NbdErrno) {
        self.counters.errors += 1;
        if self.agreed.structured && request.is_answered_in_chunks() {
            self.output.push(&reply::error(request.cookie, errno));
        } else {
            self.output.push(&reply::simple(request.cookie, Err(errno)));
        }
    }

    /// What was done since the last time is added to the server's.
    fn settle(&mut self) {
        self.shared.meter.counts().add(&std::mem::take(&mut self.counters));
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        if self.is_in_line {
            // The budget, which is dropped after this, wakes the next one.
            self.shared.budget.leave(&self.mailbox);
        }
    }
}

/// So much output is sent before more requests are looked at: the client has something to do
/// meanwhile.
const SEND_AT: usize = 144 << 10;
/// Heads of a request that comes in pieces.
const SOME: usize = 64;
/// The longest answer of extents.
const EXTENTS: usize = 33 << 10;
/// A client that had several requests in hand is expected to do so again, this many requests long.
const PIPELINES: u32 = 16;
