//! Reads a file from an HTTP server by range requests, with cache and read-ahead.
//!
//! In:    `cargo run --example http_source -- 127.0.0.1:8000 /file`.
//! Out:   the file's first bytes.
//! Never: TLS, redirects or chunked bodies; use your own HTTP client for these.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::{net::TcpStream, ops::Range};

use foreread::{Blocking, Engine, ReadRange, Reply, SourceIdentity};

/// A file on a server, in the version found when it was opened.
#[derive(Debug)]
pub struct HttpFile(String, String, String, u64);

impl HttpFile {
    /// Gets length and version from the server.
    pub fn open(host: &str, path: &str) -> io::Result<Self> {
        let (head, _) = ask(host, &format!("HEAD {path} HTTP/1.0\r\n"), "200")?;
        let field = |name| head.iter().find_map(|line| line.strip_prefix(name));
        let length = field("Content-Length: ").and_then(|it| it.parse().ok());
        let (Some(length), Some(etag)) = (length, field("ETag: ")) else {
            return Err(io::Error::other("the server states no length, or no ETag"));
        };
        Ok(Self(host.into(), path.into(), etag.into(), length))
    }
}

impl ReadRange for HttpFile {
    fn identity(&self) -> SourceIdentity {
        SourceIdentity::new(format!("http://{}{}", self.0, self.1), &self.2)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.3)
    }

    fn read_range(&self, Range { start, end }: Range<u64>, reply: &mut Reply) -> io::Result<()> {
        let (Self(host, path, etag, _), last) = (self, end - 1);
        let range = format!("Range: bytes={start}-{last}\r\nIf-Match: {etag}\r\n");
        let (_, mut body) = ask(host, &format!("GET {path} HTTP/1.0\r\n{range}"), "206")?;
        let mut part = [0; 16_384];
        loop {
            match body.read(&mut part)? {
                0 => return Ok(()),
                count => reply.write(&part[..count])?,
            }
        }
    }
}

/// Returns head and body of the response; any status except `wanted` is an error.
fn ask(host: &str, text: &str, wanted: &str) -> io::Result<(Vec<String>, BufReader<TcpStream>)> {
    let mut stream = TcpStream::connect(host)?;
    write!(stream, "{text}Host: {host}\r\n\r\n")?;
    let mut body = BufReader::new(stream);
    let lines = body.by_ref().lines().take_while(|it| !matches!(it, Ok(line) if line.is_empty()));
    let head = lines.collect::<io::Result<Vec<_>>>()?;
    let status = head.first().map_or("no answer", String::as_str);
    let is_wanted = status.split(' ').nth(1) == Some(wanted);
    if is_wanted { Ok((head, body)) } else { Err(io::Error::other(status.to_owned())) }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<_> = std::env::args().collect();
    let [_, host, path] = &args[..] else { return Err("usage: http_source HOST:PORT PATH".into()) };
    let engine = Engine::builder().build()?;
    let file = engine.open_source(Blocking::new(HttpFile::open(host, path)?))?;
    let mut bytes = [0; 64];
    let count = file.read_at(&mut bytes, 0)?;
    println!("{count} of {} bytes: {}", file.len(), String::from_utf8_lossy(&bytes[..count]));
    Ok(())
}
