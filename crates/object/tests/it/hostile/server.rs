//! A server that sends any bytes at all.
//!
//! In:    how requests are answered once it turns hostile.
//! Out:   an object, served right until then.
//! Never: a thread that outlives its connection: a client that hangs up ends it.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::faulty_server::bytes;

/// Length of the object.
pub(super) const LEN: u64 = 1 << 20;

/// A request.
pub(super) struct Request {
    range: Option<Range<u64>>,
    is_head: bool,
    /// Number of requests before it, since the server is hostile.
    pub(super) number: u64,
}

/// An answer: bytes, and how the connection goes on behind them.
pub(super) struct Answer(pub(super) Vec<u8>, pub(super) End);

/// The connection behind the bytes of an answer.
pub(super) enum End {
    /// It is used again.
    Kept,
    Closed,
    Reset,
    /// Nothing follows.
    Silent,
    /// These bytes follow, again and again, as fast as the client takes them.
    Flood(&'static [u8]),
    /// These bytes follow one at a time.
    Dribble(Vec<u8>),
}

pub(super) type Answering = fn(&Request) -> Answer;

/// The server.
pub(super) struct HostileServer {
    shared: Arc<Shared>,
    port: u16,
}

struct Shared {
    answering: Answering,
    is_hostile: AtomicBool,
    is_over: AtomicBool,
    requests: AtomicU64,
}

impl Request {
    /// Reads a request but for its last byte, which makes a reset of the close of the connection.
    fn read(from: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        let mut request = Self { range: None, is_head: false, number: 0 };
        let mut line = String::new();
        while matches!(from.fill_buf()?.first(), Some(b'\r' | b'\n')) {
            from.consume(1);
        }
        loop {
            line.clear();
            if from.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            request.is_head |= line.starts_with("HEAD ");
            if let Some(("range", value)) = line.trim().split_once(": ") {
                let range = value.strip_prefix("bytes=").and_then(|value| value.split_once('-'));
                let (start, last) = range.expect("a range");
                let last: u64 = last.parse().expect("a number");
                request.range = Some(start.parse().expect("a number")..last + 1);
            }
            if from.fill_buf()?.first() == Some(&b'\r') {
                return Ok(Some(request));
            }
        }
    }

    /// Returns the range that the client wants.
    pub(super) fn wanted(&self) -> Range<u64> {
        self.range.clone().unwrap_or(0..LEN)
    }

    /// Returns the bytes of that range.
    pub(super) fn body(&self) -> Vec<u8> {
        if self.is_head { Vec::new() } else { bytes(1, self.wanted()) }
    }

    /// Returns the start of a right head.
    pub(super) fn head(&self) -> String {
        let Range { start, end } = self.wanted();
        self.head_of(&format!("bytes {start}-{}/{LEN}", end - 1), "\"1\"")
    }

    /// Returns the start of a head with this range and tag.
    pub(super) fn head_of(&self, range: &str, tag: &str) -> String {
        match self.range {
            Some(_) => format!("HTTP/1.1 206 OK\r\nContent-Range: {range}\r\nETag: {tag}\r\n"),
            None => format!("HTTP/1.1 200 OK\r\nETag: {tag}\r\n"),
        }
    }

    /// Returns an answer with this start of a head, and the right length and body.
    pub(super) fn with(&self, head: &str) -> Answer {
        let Range { start, end } = self.wanted();
        let head = format!("{head}Content-Length: {}\r\n\r\n", end - start);
        Answer([head.into_bytes(), self.body()].concat(), End::Kept)
    }

    /// Returns the first half of the right answer to a GET, with a length of its own.
    pub(super) fn half(&self, end: End) -> Answer {
        let Answer(mut bytes, _) = self.with(&self.head());
        bytes.truncate(bytes.len() - self.body().len().div_ceil(2));
        Answer(bytes, end)
    }

    /// Returns the head of a body in chunks, and this start of it.
    pub(super) fn chunked(&self, start: &[u8], end: End) -> Answer {
        let head = format!("{}Transfer-Encoding: chunked\r\n\r\n", self.head());
        Answer([head.as_bytes(), start].concat(), end)
    }

    /// Returns the right bytes as one chunk, without the last, empty one.
    pub(super) fn chunk(&self) -> Vec<u8> {
        let body = self.body();
        [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n"].concat()
    }
}

impl Answer {
    /// Returns an answer without a body: a status and headers.
    pub(super) fn empty(head: &str) -> Self {
        let head = format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n");
        Self(head.into_bytes(), End::Kept)
    }

    /// Returns an answer of which only the start is sent.
    pub(super) fn start(start: impl Into<Vec<u8>>, end: End) -> Self {
        Self(start.into(), end)
    }

    /// Sends it. Returns whether the connection is used again.
    fn send(self, to: &mut TcpStream) -> io::Result<bool> {
        to.write_all(&self.0)?;
        match self.1 {
            End::Kept => return Ok(true),
            End::Closed | End::Reset => {}
            End::Silent => {
                let _ = to.peek(&mut [0])?;
            }
            End::Flood(part) => {
                let part = part.repeat(1 + 1000 / part.len());
                loop {
                    to.write_all(&part)?;
                }
            }
            End::Dribble(rest) => {
                // The time between two bytes, unless the client hangs up.
                to.set_read_timeout(Some(Duration::from_millis(20)))?;
                for byte in rest.chunks(1) {
                    to.write_all(byte)?;
                    if to.peek(&mut [0]).is_ok() {
                        break;
                    }
                }
            }
        }
        Ok(false)
    }
}

impl HostileServer {
    /// Serves an object; once hostile, with these answers.
    pub(super) fn start(answering: Answering) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (is_hostile, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = Shared { answering, is_hostile, is_over, requests: AtomicU64::new(0) };
        let shared = Arc::new(shared);
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let serving = Arc::clone(&accepting);
                std::thread::spawn(move || {
                    // A client that hangs up ends its connection.
                    let _ = serving.serve(stream);
                });
            }
        });
        Self { shared, port }
    }

    /// Sends the answers of the test from now on.
    pub(super) fn turn_hostile(&self) {
        self.shared.is_hostile.store(true, Ordering::SeqCst);
    }

    pub(super) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn url(&self) -> String {
        self.endpoint() + "/object"
    }

    /// Number of requests since it is hostile.
    pub(super) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }
}

impl Drop for HostileServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // The listener's thread sees that it is over.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::with_capacity(1, stream.try_clone()?);
        while let Some(mut request) = Request::read(&mut reader)? {
            let answer = if self.is_hostile.load(Ordering::SeqCst) {
                request.number = self.requests.fetch_add(1, Ordering::SeqCst);
                (self.answering)(&request)
            } else {
                request.with(&request.head())
            };
            if !matches!(answer.1, End::Reset) {
                // A close without this byte read is a reset.
                reader.consume(1);
                reader.fill_buf()?;
                reader.consume(1);
            }
            if !answer.send(&mut stream)? {
                break;
            }
        }
        Ok(())
    }
}
