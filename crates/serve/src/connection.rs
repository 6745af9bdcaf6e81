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
//!      |                                     +-- others --> the slow lane -------------------+
//!      '-- send all in one call <--- output <--- mailbox <-----------------------------------'
//! ```
//!
//! Why a thread each, and not a few for all: a hit costs less than handing it to another thread,
//! and a client that waits alone for a miss leads the ring itself. A thread that sleeps costs some
//! pages of stack.

mod greet;
mod input;
pub(crate) mod mailbox;
mod output;
mod reads;
mod writes;

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use foreread::ReadStream;
use rustix::event::PollFlags;

use crate::Counters;
use crate::lane::{Job, Work};
use crate::nbd::handshake::Negotiated;
use crate::nbd::request::{NbdCommand, NbdRequest};
use crate::nbd::{NbdErrno, ProtocolError, reply, wire};
use crate::server::Shared;
use crate::socket::{Socket, wait};

use input::Input;
use mailbox::{Mail, Mailbox};
use output::Output;
use reads::Fetches;
use writes::Incoming;

/// Why a connection ended before its client said so.
#[derive(Debug)]
pub(crate) enum End {
    /// The client broke the protocol.
    Protocol(ProtocolError),
    /// It left in the middle of something.
    Cut,
    /// It did not say in time what it wants.
    TooSlow,
    /// It was silent for too long.
    Idle,
    /// A long reply had begun when its device failed: there is no other way to say so.
    Broken,
    /// It is gone, or the system failed.
    Io(io::Error),
}

pub(crate) struct Connection<'s> {
    shared: &'s Shared,
    socket: &'s Socket,
    stream: &'s ReadStream,
    agreed: Negotiated,
    input: Input,
    output: Output<'s>,
    mailbox: Arc<Mailbox>,
    /// Mail that was taken, between two turns nothing.
    mail: Vec<Mail>,
    fetches: Fetches,
    /// Requests in the slow lane.
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
    /// Nothing more is received.
    is_over: bool,
    tally: Counters,
}

/// What a connection needs to go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Need {
    /// Bytes of its client.
    Bytes,
    /// That something in hand ends, or is sent.
    Room,
}

/// Serves a client until it leaves.
pub(crate) fn serve(
    shared: &Shared,
    socket: &Socket,
    number: u32,
    has_control: bool,
) -> Result<(), End> {
    let mut input = Input::new();
    let Some(agreed) = greet::greet(shared, socket, &mut input, has_control)? else {
        return Ok(());
    };
    let stream = shared.export.file.stream();
    let submitter = foreread::core::sched::Submitter(number);
    stream.set_submitter(submitter).map_err(io::Error::from)?;
    socket.set_idle(Some(busy_for(shared)))?;
    let mut connection = Connection {
        shared,
        socket,
        stream: &stream,
        agreed,
        input,
        output: Output::new(&shared.budget),
        mailbox: Arc::new(Mailbox::new()?),
        mail: Vec::new(),
        fetches: Fetches::default(),
        jobs: 0,
        kept: 0,
        is_in_line: false,
        is_resting: false,
        incoming: None,
        pipelines: 0,
        is_over: false,
        tally: Counters::default(),
    };
    let end = connection.run();
    connection.settle();
    connection.end()?;
    end
}

impl Connection<'_> {
    fn run(&mut self) -> Result<(), End> {
        loop {
            self.take_mail();
            let need = self.handle_input()?;
            let owed = self.output.bytes();
            self.output.send(self.socket)?;
            self.settle();
            if need == Need::Room && self.output.bytes() < owed {
                continue;
            }
            if need == Need::Bytes && (self.is_over || self.shared.is_stopping()) {
                if self.is_done()? {
                    return Ok(());
                }
                self.is_over = true;
            }
            self.wait(need)?;
        }
    }

    /// Handles what has come, as far as the limits go.
    fn handle_input(&mut self) -> Result<Need, End> {
        loop {
            if let Some(incoming) = &self.incoming {
                if incoming.is_waiting() {
                    return Ok(Need::Room);
                }
                if !self.take_payload() {
                    return Ok(Need::Bytes);
                }
                continue;
            }
            let Some(request) = NbdRequest::parse(self.input.bytes())? else {
                return Ok(Need::Bytes);
            };
            let limits = &self.shared.limits;
            let has_room = self.in_hand() < limits.requests.max(1)
                && self.kept + self.output.bytes() < limits.reply_bytes.max(1);
            let has_room = has_room && self.output.has_room_for_heads(self.in_hand() + SOME);
            if !has_room || self.must_wait_for_fetches(&request) {
                return Ok(Need::Room);
            }
            let Some(paid) = self.price(&request) else { return Ok(Need::Room) };
            self.input.consume(NbdRequest::LEN);
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
            wire::CMD_BLOCK_STATUS if self.output.purse.take(EXTENTS) => Some(EXTENTS),
            wire::CMD_BLOCK_STATUS => (self.in_hand() == 0 && self.output.is_empty()).then_some(0),
            _ => Some(0),
        }
    }

    fn handle(&mut self, request: NbdRequest, paid: usize) -> Result<(), End> {
        let has_next = self.input.bytes().len() >= NbdRequest::LEN;
        let is_alone = self.in_hand() == 0 && !has_next;
        self.pipelines = if is_alone { self.pipelines.saturating_sub(1) } else { PIPELINES };
        let NbdRequest { cookie, offset, .. } = request;
        let range = offset..request.end();
        let work = match request.check(&self.agreed) {
            Err(errno) if request.payload() > 0 => {
                assert_eq!(paid, 0, "writes pay for their parts");
                self.incoming = Some(Incoming::refused(&request, errno));
                return Ok(());
            }
            Err(errno) => {
                self.output.purse.give(paid);
                self.reply_error(&request, errno);
                return Ok(());
            }
            Ok(NbdCommand::Read { whole }) => {
                self.tally.reads += 1;
                return self.read(&request, whole, is_alone && self.pipelines == 0, paid);
            }
            Ok(NbdCommand::Write { fua }) => {
                self.tally.writes += 1;
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
                self.tally.caches += 1;
                let asked = self.shared.export.file.will_need([range]);
                self.reply(&request, asked.map(drop).map_err(|_| NbdErrno::Io));
                return Ok(());
            }
            Ok(NbdCommand::Flush) => {
                self.tally.flushes += 1;
                Work::Flush { cookie }
            }
            Ok(NbdCommand::Trim { fua }) => {
                self.tally.trims += 1;
                Work::Trim { cookie, range, fua }
            }
            Ok(NbdCommand::WriteZeroes { fua, may_unmap }) => {
                self.tally.zeroes += 1;
                Work::Zero { cookie, range, may_unmap, fua }
            }
            Ok(NbdCommand::BlockStatus { one }) => {
                self.tally.block_status += 1;
                Work::Extents { cookie, range, one }
            }
        };
        self.give_away(work, paid);
        Ok(())
    }

    /// To the slow lane.
    fn give_away(&mut self, work: Work, paid: usize) {
        self.jobs += 1;
        self.kept += paid;
        let job = Job { work, paid, mailbox: Arc::clone(&self.mailbox) };
        self.shared.lane.add(&self.shared.store, job);
    }

    fn take_mail(&mut self) {
        let mut mail = std::mem::take(&mut self.mail);
        self.mailbox.take(&mut mail);
        for piece in mail.drain(..) {
            match piece {
                Mail::Fetch(slot) => self.poll_fetch(slot),
                Mail::Memory => self.is_in_line = false,
                Mail::Written { result, paid } => {
                    self.jobs -= 1;
                    self.kept -= paid;
                    self.output.purse.give(paid);
                    self.written(result);
                }
                Mail::Reply { bytes, paid, is_error } => {
                    self.jobs -= 1;
                    self.kept -= paid;
                    self.tally.errors += u64::from(is_error);
                    if bytes.len() <= reply::DATA_CHUNK || self.output.has_room(bytes.len()) {
                        self.output.push(&bytes);
                        self.output.purse.give(paid);
                    } else {
                        self.output.push_owned(bytes, paid);
                    }
                }
            }
        }
        self.mail = mail;
    }

    /// Waits until there is something to do.
    fn wait(&mut self, need: Need) -> Result<(), End> {
        self.output.purse.rest();
        let wants_bytes = need == Need::Bytes && !self.is_over;
        if wants_bytes && self.in_hand() == 0 && self.output.is_empty() {
            if self.pipelines > 0 && self.receive_more()? {
                return Ok(());
            }
            let bytes = match self.socket.recv(self.input.room()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.idle(),
                bytes => bytes?,
            };
            if self.is_resting {
                self.is_resting = false;
                self.socket.set_idle(Some(busy_for(self.shared)))?;
            }
            self.received(bytes);
            return Ok(());
        }
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, wants_bytes);
        wanted.set(PollFlags::OUT, !self.output.is_empty());
        if wanted.is_empty() && self.is_over {
            // The client has ended its side: the socket has nothing more to say.
            wait([(self.mailbox.as_fd(), PollFlags::IN)], None)?;
            return Ok(());
        }
        let fds = [(self.socket.as_fd(), wanted), (self.mailbox.as_fd(), PollFlags::IN)];
        let [socket, _] = wait(fds, None)?;
        if wants_bytes && socket.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            if let Some(bytes) = self.socket.try_recv(self.input.room())? {
                self.received(bytes);
            }
        } else if socket.intersects(PollFlags::HUP | PollFlags::ERR) {
            // The client is gone: there is no receiver of replies.
            return Err(End::Io(io::ErrorKind::ConnectionReset.into()));
        }
        Ok(())
    }

    /// It was silent for a while: its buffers go. If it was for too long, it goes.
    fn idle(&mut self) -> Result<(), End> {
        let (busy, limit) = (busy_for(self.shared), self.shared.limits.idle_timeout);
        if limit.is_some_and(|limit| self.is_resting || limit <= busy) {
            return Err(End::Idle);
        }
        self.is_resting = true;
        self.output.shrink();
        if self.input.shrink() {
            self.output.purse.give(GROWTH);
        }
        Ok(self.socket.set_idle(limit.map(|limit| limit - busy))?)
    }

    /// What others still do for it, they do in memory that is its own: it is there so long.
    fn end(&mut self) -> io::Result<()> {
        self.fetches = Fetches::default();
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

    /// A client that pipelines is about to send its next request: it gets the processor for a
    /// moment, and several of its requests are received in one call. A sleep at once would end with
    /// the first of them, which costs both sides more than a reply.
    fn receive_more(&mut self) -> Result<bool, End> {
        for _ in 0..YIELDS {
            std::thread::yield_now();
            if let Some(bytes) = self.socket.try_recv(self.input.room())? {
                self.received(bytes);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn received(&mut self, bytes: usize) {
        self.input.received(bytes);
        self.is_over |= bytes == 0;
    }

    /// Whether a client that sends no more has got all.
    fn is_done(&self) -> Result<bool, End> {
        if self.is_over && !self.shared.is_stopping() && self.has_part() {
            return Err(End::Cut);
        }
        Ok(self.in_hand() == 0 && self.output.is_empty())
    }

    /// Whether a request has come in part.
    fn has_part(&self) -> bool {
        self.incoming.is_some() || !self.input.bytes().is_empty()
    }

    /// Requests that are neither answered nor failed.
    fn in_hand(&self) -> usize {
        self.jobs + self.fetches.count()
    }

    fn reply(&mut self, request: &NbdRequest, result: Result<(), NbdErrno>) {
        match result {
            Ok(()) => self.output.push(&reply::simple(request.cookie, Ok(()))),
            Err(errno) => self.reply_error(request, errno),
        }
    }

    fn reply_error(&mut self, request: &NbdRequest, errno: NbdErrno) {
        self.tally.errors += 1;
        if self.agreed.structured && request.is_answered_in_chunks() {
            self.output.push(&reply::error(request.cookie, errno));
        } else {
            self.output.push(&reply::simple(request.cookie, Err(errno)));
        }
    }

    /// What was done since the last time is added to the server's.
    fn settle(&mut self) {
        self.shared.meter.counts().add(&std::mem::take(&mut self.tally));
    }
}

impl End {
    /// Whether the client is to blame, which is worth a line.
    pub(crate) fn is_worth_a_line(&self) -> bool {
        match self {
            Self::Protocol(_) | Self::Cut | Self::TooSlow | Self::Idle | Self::Broken => true,
            Self::Io(error) => {
                !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
            }
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Protocol(bad) => bad.fmt(f),
            Self::Cut => write!(f, "it left in the middle of a request"),
            Self::TooSlow => write!(f, "its handshake took too long"),
            Self::Idle => write!(f, "it was silent for too long"),
            Self::Broken => write!(f, "the device failed in the middle of a long reply"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl From<ProtocolError> for End {
    fn from(bad: ProtocolError) -> Self {
        Self::Protocol(bad)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        if self.is_in_line {
            // The purse, which is dropped after this, wakes the next one.
            self.shared.budget.leave(&self.mailbox);
        }
    }
}

/// How long a connection that does nothing keeps its buffers.
fn busy_for(shared: &Shared) -> Duration {
    shared.limits.idle_timeout.map_or(BUSY, |timeout| timeout.min(BUSY))
}

const BUSY: Duration = Duration::from_secs(1);
/// So much output is sent before more requests are looked at: the client has something to do
/// meanwhile.
const SEND_AT: usize = 144 << 10;
/// Heads of a request that comes in pieces.
const SOME: usize = 64;
/// The longest answer of extents.
const EXTENTS: usize = 33 << 10;
/// What the input of a connection that writes has beyond the others'.
const GROWTH: usize = input::LARGE_INPUT - input::INPUT;
/// A client that had several requests in hand is expected to do so again, this many requests long.
const PIPELINES: u32 = 16;
/// A few microseconds of an idle processor, and no time of a busy one.
const YIELDS: u32 = 8;
