//! A small blocking client: for `stats` and `set`, for tests, and to generate load.
//!
//! In:    a URI or a path, requests.
//! Out:   replies.
//! Never: trust in the server: its lengths and numbers are checked.

mod session;

use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::PollFlags;

use crate::nbd::handshake::Negotiated;
use crate::nbd::peer::{self, OptionReply};
use crate::nbd::wire;
use crate::socket::{Socket, wait};

pub use session::{ReplyPiece, Session};

/// Connection to a server in its handshake.
#[derive(Debug)]
pub struct Client {
    wire: ClientSocket,
    /// Export name of the URI.
    export: String,
}

/// Socket with a buffer of received bytes.
#[derive(Debug)]
struct ClientSocket {
    socket: Socket,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// An error of the client or from its server, in one line.
#[derive(Debug)]
pub struct ClientError {
    text: String,
}

impl Client {
    /// Connects to `nbd+unix:///EXPORT?socket=PATH`, `nbd://HOST:PORT/EXPORT`, or to the Unix
    /// socket of that path.
    ///
    /// # Errors
    ///
    /// If no server listens there, or it is no NBD server.
    pub fn connect(uri: &str) -> Result<Self, ClientError> {
        let failed = |error: io::Error| ClientError::new(format!("{uri}: cannot connect: {error}"));
        if let Some(rest) = uri.strip_prefix("nbd://") {
            let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
            let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
            let stream =
                if has_port { TcpStream::connect(host) } else { TcpStream::connect((host, 10809)) };
            let stream = stream.map_err(failed)?;
            let addr = stream.peer_addr().map_err(failed)?;
            return Self::greet(Socket::tcp(stream.into(), addr), unescape(export));
        }
        let (export, path) = match uri.strip_prefix("nbd+unix:///") {
            Some(rest) => match rest.split_once("?socket=") {
                Some((export, path)) => (unescape(export), unescape(path)),
                None => return Err(ClientError::new(format!("{uri}: give ?socket=PATH"))),
            },
            None => (String::new(), uri.to_owned()),
        };
        let stream = UnixStream::connect(Path::new(&path)).map_err(failed)?;
        Self::greet(Socket::unix(stream.into()), export)
    }

    /// Speaks to a server over a socket that is connected.
    ///
    /// # Errors
    ///
    /// If it is no NBD server.
    pub fn over(stream: UnixStream) -> Result<Self, ClientError> {
        Self::greet(Socket::unix(stream.into()), String::new())
    }

    fn greet(socket: Socket, export: String) -> Result<Self, ClientError> {
        let mut wire = ClientSocket { socket, buffer: vec![0; BUFFER], start: 0, end: 0 };
        loop {
            if let Some(flags) = peer::greeting(wire.bytes())? {
                wire.start += peer::GREETING;
                wire.send(&flags.to_be_bytes())?;
                return Ok(Self { wire, export });
            }
            wire.receive()?;
        }
    }

    /// Sends a control request and returns the text of the reply.
    ///
    /// # Errors
    ///
    /// If the server replies with an error, or with nothing.
    pub fn control(&mut self, text: &str) -> Result<String, ClientError> {
        let mut out = Vec::new();
        peer::option(&mut out, wire::OPT_CONTROL, &[text.as_bytes()]);
        self.wire.send(&out)?;
        let mut answer = String::new();
        self.answers(|reply| {
            answer = reply.text();
            reply.kind == wire::REP_CONTROL
        })?;
        Ok(answer)
    }

    /// Returns the names of the server's exports.
    ///
    /// # Errors
    ///
    /// If the server does not list them.
    pub fn list(&mut self) -> Result<Vec<String>, ClientError> {
        let mut out = Vec::new();
        peer::option(&mut out, wire::OPT_LIST, &[]);
        self.wire.send(&out)?;
        let mut names = Vec::new();
        self.answers(|reply| {
            if let Some((len, rest)) = reply.data.split_first_chunk() {
                let len = u32::from_be_bytes(*len) as usize;
                let name = rest.get(..len).unwrap_or(rest);
                names.push(String::from_utf8_lossy(name).into_owned());
            }
            reply.kind == wire::REP_ACK
        })?;
        Ok(names)
    }

    /// Selects the export of the URI and ends the handshake.
    ///
    /// # Errors
    ///
    /// If the server does not give it.
    pub fn go(self, structured: bool) -> Result<Session, ClientError> {
        let name = self.export.clone();
        self.go_to(&name, structured)
    }

    /// Selects an export and ends the handshake; `structured` also enables block status.
    ///
    /// # Errors
    ///
    /// If the server does not give it.
    pub fn go_to(mut self, name: &str, structured: bool) -> Result<Session, ClientError> {
        let is_ack = |reply: &OptionReply<'_>| reply.kind == wire::REP_ACK;
        let mut agreed =
            Negotiated { structured, base_allocation: structured, ..Negotiated::default() };
        if structured {
            let mut out = Vec::new();
            peer::option(&mut out, wire::OPT_STRUCTURED_REPLY, &[]);
            self.wire.send(&out)?;
            self.answers(is_ack)?;
            out.clear();
            let question = [wire::BASE_ALLOCATION];
            peer::meta_context(&mut out, wire::OPT_SET_META_CONTEXT, name, &question);
            self.wire.send(&out)?;
            self.answers(is_ack)?;
        }
        let mut out = Vec::new();
        peer::info(&mut out, wire::OPT_GO, name, &[]);
        self.wire.send(&out)?;
        self.answers(|reply| {
            reply.note_export(&mut agreed);
            is_ack(reply)
        })?;
        Ok(Session::new(self.wire, agreed))
    }

    /// Receives option replies until `is_last` returns true.
    fn answers(
        &mut self,
        mut is_last: impl FnMut(&OptionReply<'_>) -> bool,
    ) -> Result<(), ClientError> {
        loop {
            let Some((reply, used)) = OptionReply::parse(self.wire.bytes())? else {
                self.wire.receive()?;
                continue;
            };
            let end = if reply.is_error() {
                let text = match reply.text() {
                    text if text.is_empty() => format!("the server refused: {:#x}", reply.kind),
                    text => text,
                };
                Some(Err(ClientError::new(text)))
            } else {
                is_last(&reply).then_some(Ok(()))
            };
            self.wire.start += used;
            if let Some(end) = end {
                return end;
            }
        }
    }
}

impl ClientSocket {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Sends all of it.
    fn send(&mut self, mut bytes: &[u8]) -> Result<(), ClientError> {
        while !bytes.is_empty() {
            let sent = self.socket.try_send(&[IoSlice::new(bytes)])?;
            bytes = &bytes[sent..];
            if sent == 0 {
                wait([(self.socket.as_fd(), PollFlags::OUT)], None)?;
            }
        }
        Ok(())
    }

    /// Waits for bytes.
    fn receive(&mut self) -> Result<(), ClientError> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.buffer.len() - self.end < self.buffer.len() / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            // One message fills it; none is longer than its bound.
            self.buffer.resize(2 * self.end, 0);
        }
        match self.socket.recv(&mut self.buffer[self.end..])? {
            0 => Err(ClientError::new("the server has closed the connection".into())),
            bytes => {
                self.end += bytes;
                if self.end == self.buffer.len() && self.end < MOST {
                    // The socket has more: receive it in one call next time.
                    self.buffer.resize(2 * self.end, 0);
                }
                Ok(())
            }
        }
    }
}

/// Decodes the percent-encoding of a URI's text.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl ClientError {
    fn new(text: String) -> Self {
        Self { text }
    }
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::new(format!("the connection failed: {error}"))
    }
}

impl From<crate::nbd::ProtocolError> for ClientError {
    fn from(bad: crate::nbd::ProtocolError) -> Self {
        Self::new(format!("not an NBD server, or a broken one: {bad}"))
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for ClientError {}

/// Some small replies.
const BUFFER: usize = 16 << 10;
/// Some large ones. It grows beyond this for one that is larger.
const MOST: usize = 1 << 20;
