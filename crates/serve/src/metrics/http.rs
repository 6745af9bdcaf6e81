//! Minimal HTTP server for scrapers: `GET /metrics`, one connection at a time, in one thread. A
//! slow scraper delays others by a few seconds at most.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};

/// A thread that answers scrapers. Dropping it stops and joins it.
#[derive(Debug)]
pub struct Metrics {
    addr: SocketAddr,
    /// The writing end of a pipe that carries no bytes: its end is the word to stop.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Listens on `addr` (port 0: a free one) and replies to `GET /metrics` with the result of
    /// `page`.
    ///
    /// # Errors
    ///
    /// If the address is refused, or no thread can be started.
    pub fn serve(addr: SocketAddr, page: impl Fn() -> String + Send + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || answer_all(&listener, &stopped, &page))?;
        Ok(Self { addr, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends after the scraper in hand, at most a few seconds.
            let _ = thread.join();
        }
    }
}

fn answer_all(listener: &TcpListener, stopped: &OwnedFd, page: &dyn Fn() -> String) {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::empty()),
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        if !fds[0].revents().is_empty() {
            return;
        }
        if let Ok((scraper, _)) = listener.accept() {
            // A scraper that went away is its own affair.
            let _ = answer(scraper, page);
        } else {
            // Out of descriptors, or the client has left. Polling the listener again would return
            // at once, so pause on the pipe instead.
            let mut fds = [PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::empty())];
            let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            let _ = poll(&mut fds, Some(&pause));
        }
    }
}

fn answer(mut scraper: TcpStream, page: &dyn Fn() -> String) -> io::Result<()> {
    scraper.set_nonblocking(false)?;
    scraper.set_read_timeout(Some(PATIENCE))?;
    scraper.set_write_timeout(Some(PATIENCE))?;
    let asked = head(&mut scraper)?.map_or(ScrapeRequest::TooMuch, |head| ScrapeRequest::of(&head));
    match asked {
        ScrapeRequest::Page { wants_body } => send(&mut scraper, "200 OK", &page(), wants_body),
        ScrapeRequest::Elsewhere => send(&mut scraper, "404 Not Found", "see /metrics\n", true),
        ScrapeRequest::Otherwise => {
            send(&mut scraper, "405 Method Not Allowed\r\nAllow: GET, HEAD", "GET, or HEAD\n", true)
        }
        ScrapeRequest::Garbage => {
            send(&mut scraper, "400 Bad Request", "GET /metrics HTTP/1.1\n", true)
        }
        ScrapeRequest::TooMuch => {
            send(&mut scraper, "431 Request Header Fields Too Large", "too much\n", true)
        }
    }?;
    // Drain a body: closing with unread bytes would discard the reply.
    scraper.shutdown(Shutdown::Write)?;
    let mut rest = [0; 1024];
    for _ in 0..READS_MAX {
        if scraper.read(&mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}

/// Reads the head of the request; None if it is too long or arrives in too many pieces.
fn head(scraper: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::with_capacity(HEAD_MAX);
    let mut piece = [0; 1024];
    for _ in 0..READS_MAX {
        let len = scraper.read(&mut piece)?;
        if len == 0 || head.len() + len > HEAD_MAX {
            break;
        }
        head.extend_from_slice(&piece[..len]);
        if is_whole(&head) {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

/// Returns true if the head ends with an empty line; accepts bare line feeds.
fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n")
}

/// Parsed request line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ScrapeRequest {
    Page {
        wants_body: bool,
    },
    /// Another page.
    Elsewhere,
    /// Another method.
    Otherwise,
    /// Not HTTP.
    Garbage,
    /// The head of the request is too long.
    TooMuch,
}

impl ScrapeRequest {
    fn of(head: &[u8]) -> Self {
        let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let Ok(line) = std::str::from_utf8(line) else { return Self::Garbage };
        let mut words = line.trim_end().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Self::Garbage;
        };
        if !version.starts_with("HTTP/1.") {
            return Self::Garbage;
        }
        let is_page = target.split('?').next() == Some("/metrics");
        match method {
            "GET" | "HEAD" if is_page => Self::Page { wants_body: method == "GET" },
            "GET" | "HEAD" => Self::Elsewhere,
            _ => Self::Otherwise,
        }
    }
}

fn send(scraper: &mut TcpStream, status: &str, body: &str, wants_body: bool) -> io::Result<()> {
    let kind = if status.starts_with("200") { "; version=0.0.4" } else { "" };
    let len = body.len();
    let mut text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain{kind}; charset=utf-8\r\n\
         Content-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    if wants_body {
        text.push_str(body);
    }
    scraper.write_all(text.as_bytes())
}

/// Prometheus sends some 300 bytes.
const HEAD_MAX: usize = 8 << 10;

/// Reads of one request. Each may take [`PATIENCE`]: a silent scraper delays the others, which wait
/// in the backlog, by half a second, and one that sends byte by byte by four seconds.
const READS_MAX: usize = 4;

const PATIENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        let page = |wants_body| ScrapeRequest::Page { wants_body };
        for (head, asked) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", page(true)),
            ("GET /metrics?name=x HTTP/1.0\r\n\r\n", page(true)),
            ("HEAD /metrics HTTP/1.1\n\n", page(false)),
            ("GET / HTTP/1.1\r\n\r\n", ScrapeRequest::Elsewhere),
            ("GET /metrics2 HTTP/1.1\r\n\r\n", ScrapeRequest::Elsewhere),
            ("POST /metrics HTTP/1.1\r\n\r\n", ScrapeRequest::Otherwise),
            ("GET /metrics HTTP/2\r\n\r\n", ScrapeRequest::Garbage),
            ("GET /metrics\r\n\r\n", ScrapeRequest::Garbage),
            ("\r\n\r\n", ScrapeRequest::Garbage),
            ("GET  /metrics HTTP/1.1\r\n\r\n", ScrapeRequest::Garbage),
        ] {
            assert!(is_whole(head.as_bytes()), "{head:?}");
            assert_eq!(ScrapeRequest::of(head.as_bytes()), asked, "{head:?}");
        }
        assert_eq!(ScrapeRequest::of(b"\xff\xff\r\n\r\n"), ScrapeRequest::Garbage);
        assert!(!is_whole(b"GET /metrics HTTP/1.1\r\nHost: x\r\n"));
    }

    fn asked(addr: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn server() -> Metrics {
        let addr = SocketAddr::from(([127, 0, 0, 1], 0));
        Metrics::serve(addr, || "a 1\n".to_owned()).unwrap()
    }

    #[test]
    fn the_page_is_sent_with_its_length_and_its_version() {
        let server = server();
        let answer = asked(server.addr(), b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(
            answer,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             Content-Length: 4\r\nConnection: close\r\n\r\na 1\n"
        );
        let head = asked(server.addr(), b"HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.ends_with("Content-Length: 4\r\nConnection: close\r\n\r\n"), "{head}");
        assert!(asked(server.addr(), b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    }

    #[test]
    fn a_scraper_that_says_nothing_or_too_much_is_let_go_and_the_next_is_answered() {
        let server = server();
        let silent = TcpStream::connect(server.addr()).unwrap();
        let long = [&b"GET /"[..], &[b'x'; HEAD_MAX]].concat();
        assert!(asked(server.addr(), &long).starts_with("HTTP/1.1 431 "));
        assert!(asked(server.addr(), b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("a 1\n"));
        drop(silent);
    }

    #[test]
    fn one_that_is_dropped_listens_no_more() {
        let server = server();
        let addr = server.addr();
        drop(server);
        assert!(TcpStream::connect(addr).is_err());
    }
}
