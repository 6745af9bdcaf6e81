//! A connection: one client, served by one thread.
//!
//! In:    a socket, and mail from other threads.
//! Out:   replies, in any order.
//! Never: more requests in hand than its limits; a thread blocked on the device while other
//!        requests of the client could be served; pages pinned for a client that does not read.
//!
//! ```text
//!   receive -> all requests that are there --+-- hit    --> output: copied, or pinned
//!      ^                                     +-- miss   --> alone: read here; else a fetch --+
//!      |                                     +-- others --> future, or the blocking pool --------+
//!      '-- send all in one call <--- output <--- mailbox <-----------------------------------'
//! ```
//!
//! Each connection has a thread because a cache hit costs less than a hand-over to another thread,
//! and because a lone miss is fastest when its own thread drives the ring. A sleeping thread costs
//! a few pages of stack.

pub(crate) mod end;
mod file_work;
mod handshake;
mod payload;
mod reads;
mod receive_buffer;
mod send_queue;
mod task_slots;
mod wait;
pub(crate) mod wait_mode;
mod writes;

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use foreread::ReadStream;
use rustix::event::PollFlags;

use crate::Counters;
use crate::blocking_pool::BlockingWork;
use crate::clock::now;
use crate::mailbox::{Mail, Mailbox};
use crate::nbd::handshake::Negotiated;
use crate::nbd::request::{NbdCommand, NbdRequest};
use crate::nbd::{NbdErrno, reply, wire};
use crate::server_state::ServerState;
use crate::socket::{Socket, wait};

use end::ConnectionEnd;
use file_work::FileWork;
use payload::Incoming;
use reads::PendingReads;
use receive_buffer::ReceiveBuffer;
use send_queue::SendQueue;
use task_slots::TaskSlots;
use wait::busy_for;
use wait_mode::WaitModes;

pub(crate) struct Connection<'s> {
    shared: &'s ServerState,
    socket: &'s Socket,
    stream: &'s ReadStream,
    agreed: Negotiated,
    input: ReceiveBuffer,
    output: SendQueue<'s>,
    mailbox: Arc<Mailbox>,
    /// Buffer for mail; empty between two turns of the loop.
    mail: Vec<Mail>,
    pending: PendingReads,
    /// Writes and flushes in flight as futures.
    file_work: TaskSlots<FileWork>,
    /// Jobs in the blocking pool.
    jobs: usize,
    /// Bytes of memory that requests in hand hold.
    kept: usize,
    /// Queued for memory of the server's budget.
    is_in_line: bool,
    /// The client was idle and its buffers were freed.
    is_resting: bool,
    /// Write request in progress: its payload is arriving.
    incoming: Option<Incoming>,
    /// Number of further requests for which the client counts as pipelining.
    pipelines: u32,
    wait_modes: WaitModes,
    /// The client sends no more requests.
    is_over: bool,
    counters: Counters,
}

/// Event that a connection needs to make progress.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WaitFor {
    /// More bytes from the client.
    Bytes,
    /// A request in hand completes, or a reply is sent.
    Room,
}

/// Serves a client until it disconnects.
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
        file_work: TaskSlots::default(),
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

    /// Handles received requests until the limits are reached.
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

    /// Takes the memory that a request needs beyond the connection's fixed buffers from the
    /// server's budget, and returns its size. None: the budget is spent, and requests in hand must
    /// complete first. With none in hand, the request is answered piece by piece.
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
            // One extent fits into the space of a reply's header.
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
            // From here on, offsets are those of the file.
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
                // The protocol ignores bytes after it.
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
        self.begin_work(work, paid);
        Ok(())
    }

    fn take_mail(&mut self) {
        let mut mail = std::mem::take(&mut self.mail);
        self.mailbox.take(&mut mail);
        for piece in mail.drain(..) {
            match piece {
                Mail::ReadWoken(slot) => self.poll_fetch(slot),
                Mail::WriteWoken(slot) => self.poll_file_work(slot),
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

    /// Drops all futures and waits for jobs in the blocking pool.
    fn end(&mut self) -> io::Result<()> {
        self.pending = PendingReads::default();
        self.file_work = TaskSlots::default();
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

    /// Returns true if a client that sends no more has received all replies.
    fn is_done(&self) -> Result<bool, ConnectionEnd> {
        if self.is_over && !self.shared.is_stopping() && self.has_part() {
            return Err(ConnectionEnd::Cut);
        }
        Ok(self.in_hand() == 0 && self.output.is_empty())
    }

    /// Returns true if part of a request has arrived.
    fn has_part(&self) -> bool {
        self.incoming.is_some() || !self.input.bytes().is_empty()
    }

    /// Returns the number of requests in flight.
    fn in_hand(&self) -> usize {
        self.jobs + self.pending.count() + self.file_work.count()
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

    /// Adds the counters since the last call to the server's.
    fn settle(&mut self) {
        self.shared.meter.counts().add(&std::mem::take(&mut self.counters));
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        if self.is_in_line {
            // The connection's budget is dropped after this and wakes the next waiter.
            self.shared.budget.leave(&self.mailbox);
        }
    }
}

/// Output that is sent before further requests are handled, so that the client can work on it.
const SEND_AT: usize = 144 << 10;
/// Reply headers of one long read.
const SOME: usize = 64;
/// Length limit of a block-status reply.
const EXTENTS: usize = 33 << 10;
/// A client that had several requests in flight counts as pipelining for this many more.
const PIPELINES: u32 = 16;
