//! A bucket in memory behind the protocols of S3, Google's store and Azure's, for what real servers
//! do not let a test make: any keys, pages of any length, refusals, a count of each kind of
//! request.
//!
//! In:    keys and bytes; how many requests are refused, and how.
//! Out:   listings (ListObjectsV2, which Google's store knows, too, and List Blobs), objects by
//!        ranges, under conditions.
//! Never: a port of its own choice; a signature that is verified.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test files")]

mod http;
mod listing;

use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::{Request, answer, decoded};
use listing::Key;

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
    refusal: Mutex<Refusal>,
    refused: AtomicU64,
    /// What is sent in place of each listing.
    listing: Mutex<Option<String>>,
    /// That of the last request.
    authorization: Mutex<Option<String>>,
    is_over: AtomicBool,
}

/// What the next requests get instead of an answer.
#[derive(Clone, Debug, Default)]
struct Refusal {
    times: u64,
    status: u16,
    code: String,
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

    /// So many requests to come are refused with this status, and this code in a body as S3 has it.
    pub fn refuse(&self, times: u64, status: u16, code: &str) {
        let refusal = Refusal { times, status, code: code.to_owned() };
        *self.shared.refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
    }

    /// Answers each request for a listing with this text, whatever it asks for.
    pub fn answer_listings_with(&self, text: &str) {
        let listing = Some(text.to_owned());
        *self.shared.listing.lock().unwrap_or_else(PoisonError::into_inner) = listing;
    }

    /// How many were refused so far.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::SeqCst)
    }

    /// The credentials of the last request.
    #[must_use]
    pub fn authorization(&self) -> Option<String> {
        self.shared.authorization.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

impl Shared {
    fn objects(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (Vec<u8>, u64)>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        // Head and body are two writes: the second would wait for the client's delayed answer.
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some(request) = Request::read(&mut reader)? {
            let last = request.authorization.clone();
            *self.authorization.lock().unwrap_or_else(PoisonError::into_inner) = last;
            if let Some((status, body)) = self.refusal() {
                answer(&mut stream, &request, status, "", body.as_bytes())?;
                continue;
            }
            let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
            let key = decoded(path.trim_start_matches('/'));
            let key = key.strip_prefix(BUCKET).unwrap_or(&key);
            if query.split('&').any(|part| part == "list-type=2") {
                self.lists.fetch_add(1, Ordering::SeqCst);
                answer(&mut stream, &request, 200, "", self.listing(query).as_bytes())?;
            } else if query.split('&').any(|part| part == "comp=list") {
                self.lists.fetch_add(1, Ordering::SeqCst);
                answer(&mut stream, &request, 200, "", self.blobs(query).as_bytes())?;
            } else {
                self.object(&mut stream, &request, key.strip_prefix('/').unwrap_or(key))?;
            }
        }
        Ok(())
    }

    /// Status and body of a refusal, if one is due.
    fn refusal(&self) -> Option<(u16, String)> {
        let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        refusal.times = refusal.times.checked_sub(1)?;
        self.refused.fetch_add(1, Ordering::SeqCst);
        let Refusal { status, code, .. } = &*refusal;
        let start = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>";
        let body = format!("{start}<Code>{code}</Code><Message>No.</Message></Error>");
        Some((*status, body))
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
        let head = format!("ETag: {tag}\r\nLast-Modified: {}\r\n", listing::DATE);
        let len = bytes.len() as u64;
        match request.range.map(|range| range.within(len)) {
            Some(Some(range)) => {
                let said = format!("Content-Range: bytes {}-{}/", range.start, range.end - 1);
                let head = format!("{head}{said}{len}\r\n");
                let part =
                    usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                answer(to, request, 206, &head, &bytes[part])
            }
            Some(None) => answer(to, request, 416, "", b"<Error/>"),
            None => answer(to, request, 200, &head, &bytes),
        }
    }

    fn listing(&self, query: &str) -> String {
        if let Some(text) = self.set_listing() {
            return text;
        }
        let objects = self.objects();
        listing::answer(keys(&objects), query, self.page.load(Ordering::SeqCst))
    }

    fn blobs(&self, query: &str) -> String {
        if let Some(text) = self.set_listing() {
            return text;
        }
        let objects = self.objects();
        listing::blobs(keys(&objects), query, self.page.load(Ordering::SeqCst))
    }

    fn set_listing(&self) -> Option<String> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn keys(objects: &BTreeMap<String, (Vec<u8>, u64)>) -> impl Iterator<Item = Key<'_>> {
    objects.iter().map(|(key, (bytes, version))| Key {
        name: key,
        size: bytes.len() as u64,
        tag: tag(*version),
    })
}

fn tag(version: u64) -> String {
    format!("\"{version:032x}\"")
}
