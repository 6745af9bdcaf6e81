//! A bucket in memory behind the S3 protocol, for what real servers do not let a test make: any
//! keys, pages of any length, a count of each kind of request.
//!
//! In:    keys and bytes.
//! Out:   listings (ListObjectsV2), objects by ranges, under conditions.
//! Never: a port of its own choice; a signature that is verified.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test files")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The server; it ends when it is dropped.
pub struct BucketServer {
    shared: Arc<Shared>,
    port: u16,
}

/// The name of its only bucket.
pub const BUCKET: &str = "bucket";

#[derive(Default)]
struct Shared {
    /// Each with the number of its version.
    objects: Mutex<BTreeMap<String, (Vec<u8>, u64)>>,
    versions: AtomicU64,
    page: AtomicUsize,
    lists: AtomicU64,
    gets: AtomicU64,
    heads: AtomicU64,
    is_over: AtomicBool,
}

impl BucketServer {
    /// Serves an empty bucket.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared { page: AtomicUsize::new(1000), ..Shared::default() });
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

    /// Its address.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Puts an object, in place of the one that is there.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        let version = self.shared.versions.fetch_add(1, Ordering::SeqCst);
        self.shared.objects().insert(key.to_owned(), (bytes.to_vec(), version));
    }

    /// Removes an object.
    pub fn remove(&self, key: &str) {
        self.shared.objects().remove(key);
    }

    /// How many names a page has.
    pub fn pages_of(&self, names: usize) {
        self.shared.page.store(names, Ordering::SeqCst);
    }

    /// How many listings there were, requests for bytes, and for attributes.
    #[must_use]
    pub fn requests(&self) -> (u64, u64, u64) {
        let Shared { lists, gets, heads, .. } = &*self.shared;
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        (count(lists), count(gets), count(heads))
    }
}

impl Drop for BucketServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // The listener's thread sees that it is over.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// A request, as far as the server looks at it.
struct Request {
    is_head: bool,
    target: String,
    range: Option<Range<usize>>,
    if_match: Option<String>,
}

impl Shared {
    fn objects(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (Vec<u8>, u64)>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some(request) = Request::read(&mut reader)? {
            let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
            let key = decoded(path.trim_start_matches('/'));
            let key = key.strip_prefix(BUCKET).unwrap_or(&key);
            if query.split('&').any(|part| part == "list-type=2") {
                self.lists.fetch_add(1, Ordering::SeqCst);
                answer(&mut stream, &request, 200, "", self.listing(query).as_bytes())?;
            } else {
                self.object(&mut stream, &request, key.strip_prefix('/').unwrap_or(key))?;
            }
        }
        Ok(())
    }

    fn object(&self, to: &mut TcpStream, request: &Request, key: &str) -> std::io::Result<()> {
        let counter = if request.is_head { &self.heads } else { &self.gets };
        counter.fetch_add(1, Ordering::SeqCst);
        let Some((bytes, version)) = self.objects().get(key).cloned() else {
            return answer(to, request, 404, "", b"<Error><Code>NoSuchKey</Code></Error>");
        };
        let tag = tag(version);
        if request.if_match.as_ref().is_some_and(|wanted| *wanted != tag) {
            return answer(to, request, 412, "", b"<Error/>");
        }
        let head = format!("ETag: {tag}\r\nLast-Modified: Tue, 24 Nov 2026 10:00:00 GMT\r\n");
        match &request.range {
            Some(range) if range.start < bytes.len() => {
                let end = range.end.min(bytes.len());
                let said = format!("Content-Range: bytes {}-{}/", range.start, end - 1);
                let head = format!("{head}{said}{}\r\n", bytes.len());
                answer(to, request, 206, &head, &bytes[range.start..end])
            }
            Some(_) => answer(to, request, 416, "", b"<Error/>"),
            None => answer(to, request, 200, &head, &bytes),
        }
    }

    fn listing(&self, query: &str) -> String {
        let of = |name: &str| {
            let value =
                query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            value.map(|value| decoded(&value.replace('+', " ")))
        };
        let prefix = of("prefix").unwrap_or_default();
        let delimiter = of("delimiter");
        let start: usize = of("continuation-token").map_or(0, |token| token.parse().unwrap());
        let page = self.page.load(Ordering::SeqCst);
        let mut names: Vec<(String, Option<(usize, u64)>)> = Vec::new();
        for (key, (bytes, version)) in self.objects().range(prefix.clone()..) {
            let Some(rest) = key.strip_prefix(&prefix) else { break };
            let cut = delimiter.as_ref().and_then(|delimiter| rest.find(&**delimiter));
            let name = match cut {
                Some(at) => (format!("{prefix}{}", &rest[..=at]), None),
                None => (key.clone(), Some((bytes.len(), *version))),
            };
            if names.last() != Some(&name) {
                names.push(name);
            }
        }
        let mut text = String::from("<?xml version=\"1.0\"?><ListBucketResult>");
        let end = (start + page).min(names.len());
        for (name, meta) in &names[start..end] {
            let name = escaped(name);
            let part = match meta {
                Some((size, version)) => format!(
                    "<Contents><Key>{name}</Key><LastModified>2026-11-24T10:00:00.000Z\
                     </LastModified><ETag>{}</ETag><Size>{size}</Size></Contents>",
                    escaped(&tag(*version))
                ),
                None => format!("<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"),
            };
            text += &part;
        }
        if end < names.len() {
            let _ = write!(text, "<NextContinuationToken>{end}</NextContinuationToken>");
        }
        text + "</ListBucketResult>"
    }
}

impl Request {
    fn read(from: &mut BufReader<TcpStream>) -> std::io::Result<Option<Self>> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let is_head = words.next() == Some("HEAD");
        let target = words.next().unwrap_or_default().to_owned();
        let mut request = Self { is_head, target, range: None, if_match: None };
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(": ") else {
                return Ok(Some(request));
            };
            match &*name.to_ascii_lowercase() {
                "range" => request.range = range(value),
                "if-match" => request.if_match = Some(value.to_owned()),
                _ => {}
            }
        }
    }
}

fn range(value: &str) -> Option<Range<usize>> {
    let (start, end) = value.strip_prefix("bytes=")?.split_once('-')?;
    Some(start.parse().ok()?..end.parse::<usize>().ok()? + 1)
}

fn answer(
    to: &mut TcpStream,
    request: &Request,
    status: u16,
    head: &str,
    body: &[u8],
) -> std::io::Result<()> {
    let len = body.len();
    let head = format!("HTTP/1.1 {status} X\r\n{head}Content-Length: {len}\r\n\r\n");
    to.write_all(head.as_bytes())?;
    if !request.is_head {
        to.write_all(body)?;
    }
    Ok(())
}

fn tag(version: u64) -> String {
    format!("\"{version:032x}\"")
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            letter if letter.is_ascii_control() => {
                let _ = write!(escaped, "&#x{:x};", u32::from(letter));
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = std::str::from_utf8(&tail[..tail.len().min(2)]).unwrap_or_default();
        match u8::from_str_radix(hex, 16) {
            Ok(byte) if *first == b'%' && hex.len() == 2 => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).expect("keys are UTF-8")
}
