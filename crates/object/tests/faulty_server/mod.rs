//! A web server that answers wrong on purpose.
//!
//! In:    the faults of the GETs to come, in order; which version of the object is there.
//! Out:   an object at `/object` and its requests, counted.
//! Never: a port of its own choice; a thread that outlives the server, but for one that hangs on
//!        purpose, whose connection is closed.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test files")]
#![allow(clippy::cast_possible_truncation, reason = "bytes of mixed numbers")]
#![allow(clippy::wildcard_enum_match_arm, reason = "each part of an answer has few faults")]

mod request;

use std::collections::VecDeque;
use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use request::Request;

/// What is wrong with an answer to a GET.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    None,
    /// 200 and the whole object.
    IgnoreRange,
    /// The right head, and half of the body.
    Cut,
    /// A `Content-Length` of half of the range, and that.
    ShortLength,
    /// A `Content-Length` of a page more than the range, and that.
    LongLength,
    /// A `Content-Range` of other bytes, and those.
    OtherRange,
    /// A `Content-Range` that is none.
    NonsenseRange,
    /// The bytes and the tag of another version, whatever `If-Match` says.
    OtherVersion,
    /// An answer without a tag and a date.
    NoVersion,
    /// This status and a page of text.
    Status(u16),
    /// The connection is closed before there is an answer.
    Close,
    /// What is not HTTP.
    Garbage,
    /// The right head, half of the body, and nothing more as long as the server lives.
    Stall,
    /// A `Content-Range` that does not say the length of the object.
    UnknownLength,
    /// The right bytes without a `Content-Length`, in chunks of a thousand bytes.
    Chunks,
    /// The same, and half of them, as a server that compresses sends them.
    Encoded,
    /// No answer as long as the server lives.
    Hang,
    /// The object is elsewhere, where it is served right.
    Redirect,
}

/// The server.
pub struct FaultyServer {
    shared: Arc<Shared>,
    port: u16,
}

struct Shared {
    len: u64,
    version: AtomicU64,
    has_tag: AtomicBool,
    refuses_conditions: AtomicBool,
    /// How HEAD is answered: the right length, another one, or a status.
    head: Mutex<Option<u64>>,
    faults: Mutex<VecDeque<Fault>>,
    /// The fault of GETs for which none is listed.
    default: Mutex<Fault>,
    /// GETs of this path have no answer.
    hangs: Mutex<String>,
    hung: (Mutex<u64>, Condvar),
    gets: AtomicU64,
    /// GETs that are being answered, and the most that may be.
    busy: AtomicU64,
    at_once: AtomicU64,
    is_over: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

/// The byte at an offset of a version.
#[must_use]
pub fn byte(version: u64, offset: u64) -> u8 {
    let mixed = (offset / 7 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ version << 7);
    (mixed >> 32) as u8 ^ offset as u8
}

/// The bytes of a range of a version.
#[must_use]
pub fn bytes(version: u64, range: Range<u64>) -> Vec<u8> {
    range.map(|offset| byte(version, offset)).collect()
}

impl FaultyServer {
    /// Serves an object of so many bytes without faults.
    #[must_use]
    pub fn start(len: u64) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            len,
            version: AtomicU64::new(1),
            has_tag: AtomicBool::new(true),
            refuses_conditions: AtomicBool::new(false),
            head: Mutex::default(),
            faults: Mutex::default(),
            default: Mutex::new(Fault::None),
            hangs: Mutex::default(),
            hung: <_>::default(),
            gets: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            at_once: AtomicU64::new(u64::MAX),
            is_over: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let serving = Arc::clone(&accepting);
                let kept = stream.try_clone().expect("another handle");
                accepting.open.lock().unwrap().push(kept);
                std::thread::spawn(move || {
                    // A client that hangs up ends its connection.
                    let _ = serving.serve(stream);
                });
            }
        });
        Self { shared, port }
    }

    /// The URL of the object.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/object", self.port)
    }

    /// The next GETs have these faults.
    pub fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.shared.faults.lock().unwrap().extend(faults);
    }

    /// All GETs have this fault, unless one is listed.
    pub fn always(&self, fault: Fault) {
        *self.shared.default.lock().unwrap() = fault;
    }

    /// GETs of this path have no answer; that of another path is served right.
    pub fn hang(&self, path: &str) {
        path.clone_into(&mut self.shared.hangs.lock().unwrap());
    }

    /// Blocks until so many GETs had no answer.
    pub fn wait_for_hung(&self, count: u64) {
        let (hung, changed) = &self.shared.hung;
        drop(changed.wait_while(hung.lock().unwrap(), |hung| *hung < count).unwrap());
    }

    /// Closes all connections: what hangs ends.
    pub fn hang_up(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// While so many GETs are being answered, others are refused with 503.
    pub fn at_once(&self, most: u64) {
        self.shared.at_once.store(most, Ordering::SeqCst);
    }

    /// Replaces the object.
    pub fn replace(&self) {
        self.shared.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Answers have a date instead of a tag.
    pub fn without_tag(&self) {
        self.shared.has_tag.store(false, Ordering::SeqCst);
    }

    /// Conditions are refused, also those that hold.
    pub fn refuse_conditions(&self) {
        self.shared.refuses_conditions.store(true, Ordering::SeqCst);
    }

    /// HEAD is answered with this status, or this length if it is less than 400.
    pub fn head(&self, status_or_len: u64) {
        *self.shared.head.lock().unwrap() = Some(status_or_len);
    }

    /// How many GETs there were.
    #[must_use]
    pub fn gets(&self) -> u64 {
        self.shared.gets.load(Ordering::SeqCst)
    }
}

impl Drop for FaultyServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.hang_up();
        // The listener's thread sees that it is over.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        // Head and body are two writes: the second would wait for the client's delayed answer.
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some(request) = Request::read(&mut reader)? {
            let fault = if request.is_head { Fault::None } else { self.next_fault(&request) };
            let others = self.busy.fetch_add(1, Ordering::SeqCst);
            let is_busy = others >= self.at_once.load(Ordering::SeqCst);
            let fault = if is_busy { Fault::Status(503) } else { fault };
            let answered = self.answer(&mut stream, &request, fault);
            self.busy.fetch_sub(1, Ordering::SeqCst);
            if !answered? {
                stream.shutdown(std::net::Shutdown::Both)?;
                break;
            }
        }
        Ok(())
    }

    fn next_fault(&self, request: &Request) -> Fault {
        self.gets.fetch_add(1, Ordering::SeqCst);
        if request.path == ELSEWHERE {
            return Fault::None;
        }
        if request.path == *self.hangs.lock().unwrap() {
            *self.hung.0.lock().unwrap() += 1;
            self.hung.1.notify_all();
            return Fault::Hang;
        }
        let listed = self.faults.lock().unwrap().pop_front();
        listed.unwrap_or_else(|| *self.default.lock().unwrap())
    }

    /// Returns whether the connection goes on.
    fn answer(&self, to: &mut TcpStream, request: &Request, fault: Fault) -> std::io::Result<bool> {
        let version = self.version.load(Ordering::SeqCst) + u64::from(fault == Fault::OtherVersion);
        let tag = format!("\"{version}\"");
        let date = format!("Tue, 24 Nov 2026 10:00:{:02} GMT", version % 60);
        let is_tagged = self.has_tag.load(Ordering::SeqCst);
        if let Some(said) = *self.head.lock().unwrap()
            && request.is_head
        {
            let status = if said < 400 { 200 } else { said };
            let head = format!("HTTP/1.1 {status} X\r\nETag: {tag}\r\n");
            to.write_all(format!("{head}Content-Length: {said}\r\n\r\n").as_bytes())?;
            return Ok(true);
        }
        let is_refused = if self.refuses_conditions.load(Ordering::SeqCst) {
            request.if_match.is_some() || request.if_unmodified_since.is_some()
        } else if is_tagged {
            request.if_match.as_ref().is_some_and(|wanted| *wanted != tag)
        } else {
            request.if_unmodified_since.as_ref().is_some_and(|wanted| *wanted != date)
        };
        if is_refused && fault != Fault::OtherVersion {
            return page(to, 412, "the object has changed");
        }
        match fault {
            Fault::Status(status) => return page(to, status, &"<p>sorry</p>\n".repeat(100)),
            Fault::Close => return Ok(false),
            Fault::Garbage => {
                to.write_all(b"\x00\x01 this is no answer\r\n\r\n")?;
                return Ok(false);
            }
            Fault::Hang => return self.wait_for_client(to),
            Fault::Redirect => {
                let head = format!("HTTP/1.1 302 Found\r\nLocation: {ELSEWHERE}\r\n");
                to.write_all(format!("{head}Content-Length: 0\r\n\r\n").as_bytes())?;
                return Ok(true);
            }
            Fault::None
            | Fault::IgnoreRange
            | Fault::Cut
            | Fault::ShortLength
            | Fault::LongLength
            | Fault::OtherRange
            | Fault::NonsenseRange
            | Fault::OtherVersion
            | Fault::NoVersion
            | Fault::Stall
            | Fault::UnknownLength
            | Fault::Chunks
            | Fault::Encoded => {}
        }
        let attributes = match (fault, is_tagged) {
            (Fault::NoVersion, _) => String::new(),
            (_, true) => format!("ETag: {tag}\r\nLast-Modified: {date}\r\n"),
            (_, false) => format!("Last-Modified: {date}\r\n"),
        };
        self.object(to, request, fault, (version, &attributes))
    }

    /// Sends the object, or the part that was asked for, with these faults of head and body.
    fn object(
        &self,
        to: &mut TcpStream,
        request: &Request,
        fault: Fault,
        (version, attributes): (u64, &str),
    ) -> std::io::Result<bool> {
        let all = 0..self.len;
        if request.range.as_ref().is_some_and(|range| range.start >= self.len) {
            return page(to, 416, "no such range");
        }
        let wanted = request.range.clone().unwrap_or(all.clone());
        let wanted = wanted.start..wanted.end.min(self.len);
        let (said, mut body) = match fault {
            Fault::OtherRange if wanted.start == 0 => (1..wanted.end, 1..wanted.end),
            Fault::OtherRange => {
                let other = 0..wanted.end - wanted.start;
                (other.clone(), other)
            }
            Fault::IgnoreRange => (all.clone(), all),
            _ => (wanted.clone(), wanted),
        };
        let mut len = body.end - body.start;
        match fault {
            Fault::ShortLength => len /= 2,
            Fault::LongLength => len += 4096,
            _ => {}
        }
        let is_half = matches!(fault, Fault::Cut | Fault::Stall);
        body.end = body.start + if is_half { len / 2 } else { len };
        let first = if request.range.is_none() || fault == Fault::IgnoreRange {
            "HTTP/1.1 200 OK\r\n".to_owned()
        } else {
            let said = match fault {
                Fault::NonsenseRange => "bytes some-thing/else".to_owned(),
                Fault::UnknownLength => format!("bytes {}-{}/*", said.start, said.end - 1),
                _ => format!("bytes {}-{}/{}", said.start, said.end - 1, self.len),
            };
            format!("HTTP/1.1 206 Partial Content\r\nContent-Range: {said}\r\n")
        };
        if fault == Fault::Encoded {
            body.end = body.start + len / 2;
        }
        if matches!(fault, Fault::Chunks | Fault::Encoded) {
            let encoding = if fault == Fault::Encoded { "Content-Encoding: gzip\r\n" } else { "" };
            let head = format!("{first}{attributes}{encoding}Transfer-Encoding: chunked\r\n\r\n");
            to.write_all(head.as_bytes())?;
            return chunks(to, &bytes(version, body));
        }
        let head = format!("{first}{attributes}Content-Length: {len}\r\n\r\n");
        to.write_all(head.as_bytes())?;
        if !request.is_head {
            to.write_all(&bytes(version, body))?;
        }
        if fault == Fault::Stall {
            return self.wait_for_client(to);
        }
        Ok(fault != Fault::Cut)
    }

    /// Keeps the client waiting until it hangs up, or the server is over.
    fn wait_for_client(&self, from: &TcpStream) -> std::io::Result<bool> {
        let mut byte = [0];
        let _ = from.peek(&mut byte)?;
        Ok(false)
    }
}

fn page(to: &mut TcpStream, status: u16, text: &str) -> std::io::Result<bool> {
    let head = format!("HTTP/1.1 {status} No\r\nContent-Length: {}\r\n\r\n", text.len());
    to.write_all(head.as_bytes())?;
    to.write_all(text.as_bytes())?;
    Ok(true)
}

fn chunks(to: &mut TcpStream, body: &[u8]) -> std::io::Result<bool> {
    for part in body.chunks(1000) {
        to.write_all(format!("{:x}\r\n", part.len()).as_bytes())?;
        to.write_all(part)?;
        to.write_all(b"\r\n")?;
    }
    to.write_all(b"0\r\n\r\n")?;
    Ok(true)
}

/// Where redirects lead.
const ELSEWHERE: &str = "/elsewhere/object";
