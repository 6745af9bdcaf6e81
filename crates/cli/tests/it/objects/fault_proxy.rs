//! A proxy in front of a real server that makes its answers wrong.
//!
//! In:    the faults of the GETs to come, in order.
//! Out:   the server's answers, right or wrong.
//! Never: a port of its own choice; a thread that outlives the proxy and the connection it serves.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// What is wrong with the answer to a GET.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wrong {
    /// Half of the body, then the end of the connection.
    Cut,
    /// Half of the body, then a reset.
    Reset,
    /// The connection ends before there is an answer.
    Close,
    /// A `Content-Range` of the bytes behind those that come.
    OtherRange,
    /// The body and 4096 bytes more, as `Content-Length` says.
    TooMuch,
    /// Half of the body, then nothing until the client hangs up.
    TooSlow,
    /// 503 and a text.
    Busy,
    /// The same range of another object, with its `ETag`, whatever `If-Match` says.
    OtherVersion,
}

impl Wrong {
    pub(crate) const ALL: [Self; 8] = [
        Self::Cut,
        Self::Reset,
        Self::Close,
        Self::OtherRange,
        Self::TooMuch,
        Self::TooSlow,
        Self::Busy,
        Self::OtherVersion,
    ];
}

/// The proxy.
pub(crate) struct FaultProxy {
    shared: Arc<ProxyState>,
    port: u16,
}

struct ProxyState {
    upstream: u16,
    /// A path, and that of the object that takes its place.
    replaced: (String, String),
    faults: Mutex<VecDeque<Wrong>>,
    is_over: AtomicBool,
}

impl FaultProxy {
    pub(crate) fn start(upstream: u16, path: &str, other_path: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(ProxyState {
            upstream,
            replaced: (path.to_owned(), other_path.to_owned()),
            faults: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(client) = client else { continue };
                let serving = Arc::clone(&accepting);
                std::thread::spawn(move || {
                    // A client that hangs up ends its connection.
                    let _ = serving.serve(&client);
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        });
        Self { shared, port }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The next GETs have these faults, and no others.
    pub(crate) fn set(&self, faults: impl IntoIterator<Item = Wrong>) {
        *self.shared.faults.lock().unwrap() = faults.into_iter().collect();
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // The listener's thread sees that it is over.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// The lines of a head, without the empty one.
fn head(from: &mut impl BufRead) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok(lines);
        }
        lines.push(line.trim().to_owned());
    }
}

fn is(line: &str, name: &str) -> bool {
    line.split_once(':').is_some_and(|(header, _)| header.eq_ignore_ascii_case(name))
}

impl ProxyState {
    fn serve(&self, client: &TcpStream) -> io::Result<()> {
        // Head and body are two writes: the second would wait for the client's delayed answer.
        client.set_nodelay(true)?;
        let mut requests = BufReader::new(client.try_clone()?);
        loop {
            let request = head(&mut requests)?;
            let Some(first) = request.first() else { return Ok(()) };
            let fault = if first.starts_with("GET ") {
                self.faults.lock().unwrap().pop_front()
            } else {
                None
            };
            if !self.answer(client, &request, fault)? {
                return Ok(());
            }
        }
    }

    /// Returns whether the connection goes on.
    fn answer(
        &self,
        mut client: &TcpStream,
        request: &[String],
        fault: Option<Wrong>,
    ) -> io::Result<bool> {
        match fault {
            Some(Wrong::Close) => return Ok(false),
            Some(Wrong::Busy) => {
                let busy = "HTTP/1.1 503 Slow Down\r\nContent-Length: 9\r\n\r\nSlow down";
                client.write_all(busy.as_bytes())?;
                return Ok(true);
            }
            _ => {}
        }
        let upstream = self.forward(request, fault == Some(Wrong::OtherVersion))?;
        let mut answer = BufReader::new(upstream);
        let mut lines = head(&mut answer)?;
        let length = lines.iter().find(|line| is(line, "content-length"));
        let length = length.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        let length: usize = if request[0].starts_with("HEAD ") { 0 } else { length.unwrap_or(0) };
        let mut body = vec![0; length];
        answer.read_exact(&mut body)?;
        for line in &mut lines {
            match fault {
                Some(Wrong::OtherRange) if is(line, "content-range") => *line = moved(line),
                Some(Wrong::TooMuch) if is(line, "content-length") => {
                    body.extend([7; 4096]);
                    *line = format!("Content-Length: {}", body.len());
                }
                _ => {}
            }
        }
        lines.retain(|line| !is(line, "connection"));
        let text = lines.join("\r\n") + "\r\n\r\n";
        client.write_all(text.as_bytes())?;
        let is_cut = matches!(fault, Some(Wrong::Cut | Wrong::Reset | Wrong::TooSlow));
        client.write_all(&body[..if is_cut { length / 2 } else { body.len() }])?;
        match fault {
            Some(Wrong::Reset) => set_socket_linger(client, Some(Duration::ZERO))?,
            Some(Wrong::TooSlow) => {
                let _ = client.peek(&mut [0])?;
            }
            _ => {}
        }
        Ok(!is_cut)
    }

    fn forward(&self, request: &[String], is_other: bool) -> io::Result<TcpStream> {
        let mut upstream = TcpStream::connect(("127.0.0.1", self.upstream))?;
        let mut lines: Vec<String> = request.to_vec();
        if is_other {
            lines[0] = lines[0].replace(&self.replaced.0, &self.replaced.1);
            lines.retain(|line| !is(line, "if-match"));
        }
        lines.retain(|line| !is(line, "connection"));
        lines.push("Connection: close".to_owned());
        upstream.write_all((lines.join("\r\n") + "\r\n\r\n").as_bytes())?;
        Ok(upstream)
    }
}

/// A `Content-Range` of the 4096 bytes behind.
fn moved(line: &str) -> String {
    let moved = || {
        let (range, size) = line.rsplit_once(' ')?.1.split_once('/')?;
        let (start, end) = range.split_once('-')?;
        let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
        Some(format!("Content-Range: bytes {}-{}/{size}", start + 4096, end + 4096))
    };
    moved().unwrap_or_else(|| line.to_owned())
}
