//! Responses to the requests of one connection.
//!
//! In:    requests for objects and listings.
//! Out:   bytes, each when it is due on its link.
//! Never: a byte before its time; after a slow client, more than [`BEHIND_MAX`] of catching up.

use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};
use std::time::{Duration, Instant};

use rustix::fs::sendfile;

use crate::http::{Request, answer, decoded, head_of};
use crate::link::{Kind, Link, now, wait_until};
use crate::listing::{self, Key};

pub(crate) fn serve(directory: &Path, link: &Link, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = Request::read(&mut reader)? {
        let came = now();
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let path = decoded(path.trim_start_matches('/'));
        let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
        if key.is_empty() && !request.is_head {
            let due = came + link.begin(Kind::List);
            let page = listed(&directory.join(bucket), query)?;
            wait_until(due);
            answer(&mut &*stream, &request, 200, XML, page.as_bytes())?;
        } else if request.is_head {
            let due = came + link.begin(Kind::Head);
            let meta = opened(&directory.join(&path)).map(|(_, meta)| meta);
            wait_until(due);
            head(stream, &request, meta.as_ref())?;
        } else {
            let due = came + link.begin(Kind::Get);
            let sent = get(stream, &request, &directory.join(&path), (link, due));
            link.end(sent.is_ok());
            sent?;
        }
        if request.is_last {
            break;
        }
    }
    Ok(())
}

/// Metadata of an object.
struct Meta {
    len: u64,
    tag: String,
}

/// Opens a regular file and returns its metadata.
fn opened(path: &Path) -> Option<(File, Meta)> {
    if path.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let file = File::open(path).ok()?;
    let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let meta = Meta { len: meta.len(), tag: tag(&meta) };
    Some((file, meta))
}

/// Returns the version of a file, from its length and modification time.
fn tag(meta: &std::fs::Metadata) -> String {
    let written = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
    format!("\"{:016x}{:016x}\"", meta.len(), written & i128::from(u64::MAX))
}

fn head(stream: &TcpStream, request: &Request, meta: Option<&Meta>) -> io::Result<()> {
    let mut to = stream;
    match meta {
        Some(meta) => to.write_all(head_of(200, &headers(meta), meta.len).as_bytes()),
        // A target without a key is a bucket, which exists: it gets 200.
        None if request.target.trim_matches('/').contains('/') => {
            answer(&mut to, request, 404, "", b"")
        }
        None => answer(&mut to, request, 200, "", b""),
    }
}

fn get(
    stream: &TcpStream,
    request: &Request,
    path: &Path,
    (link, due): (&Link, Instant),
) -> io::Result<()> {
    let mut to = stream;
    let Some((file, meta)) = opened(path) else {
        wait_until(due);
        return answer(&mut to, request, 404, XML, b"<Error><Code>NoSuchKey</Code></Error>");
    };
    if request.if_match.as_ref().is_some_and(|wanted| *wanted != meta.tag) {
        wait_until(due);
        return answer(
            &mut to,
            request,
            412,
            XML,
            b"<Error><Code>PreconditionFailed</Code></Error>",
        );
    }
    let (status, range, said) = match request.range.map(|range| range.within(meta.len)) {
        None => (200, 0..meta.len, String::new()),
        Some(Some(Range { start, end })) => {
            let said = format!("Content-Range: bytes {start}-{}/{}\r\n", end - 1, meta.len);
            (206, start..end, said)
        }
        Some(None) => {
            wait_until(due);
            return answer(&mut to, request, 416, XML, b"<Error><Code>InvalidRange</Code></Error>");
        }
    };
    wait_until(due);
    let head = head_of(status, &(headers(&meta) + &said), range.end - range.start);
    to.write_all(head.as_bytes())?;
    body(stream, &file, range, (link, due))
}

/// Sends the body in steps; each leaves when its last byte is due.
fn body(
    stream: &TcpStream,
    file: &File,
    range: Range<u64>,
    (link, mut due): (&Link, Instant),
) -> io::Result<()> {
    let Range { start: mut at, end } = range;
    let mut paced = at;
    while at < end {
        if at == paced {
            paced = end.min(at + STEP);
            if let Some(time) = link.time_of(paced - at) {
                due = (due + time).max(now().checked_sub(BEHIND_MAX).unwrap_or(due));
                wait_until(due);
            }
        }
        let count = usize::try_from(paced - at).unwrap_or(usize::MAX);
        let before = at;
        let sent = sendfile(stream, file, Some(&mut at), count)?;
        if sent == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        link.sent(at - before);
    }
    Ok(())
}

fn headers(meta: &Meta) -> String {
    let tag = &meta.tag;
    format!(
        "ETag: {tag}\r\nLast-Modified: Tue, 24 Nov 2026 10:00:00 GMT\r\nAccept-Ranges: bytes\r\n\
         Content-Type: application/octet-stream\r\n"
    )
}

/// Returns a listing of a bucket.
fn listed(bucket: &Path, query: &str) -> io::Result<String> {
    let mut files = Vec::new();
    let mut folders = vec![bucket.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            if meta.is_dir() {
                folders.push(entry.path());
            } else if let Some(key) = entry.path().strip_prefix(bucket).ok().and_then(Path::to_str)
            {
                files.push((key.to_owned(), meta));
            }
        }
    }
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    let keys = files.iter().map(|(name, meta)| Key { name, size: meta.len(), tag: tag(meta) });
    Ok(listing::answer(keys, query, PAGE))
}

/// One step of the pace.
const STEP: u64 = 128 << 10;

/// Longest delay that is made up after a client was slow.
const BEHIND_MAX: Duration = Duration::from_millis(20);

/// Names on a page of a listing.
const PAGE: usize = 1000;

const XML: &str = "Content-Type: application/xml\r\n";

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    /// Returns the response of a server of these files, head and body.
    fn answer_of(directory: &Path, link: &'static Link, request: &str) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let directory = directory.to_owned();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            drop(serve(&directory, link, &stream));
        });
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.write_all(format!("{request}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        server.join().unwrap();
        text
    }

    #[test]
    fn an_object_is_served_by_ranges_and_counted() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("lab/sub")).unwrap();
        std::fs::write(directory.path().join("lab/sub/a b"), "0123456789").unwrap();
        let link: &Link = Box::leak(Box::new(Link::parse("A=0,80").unwrap()));
        let of = |request: &str| answer_of(directory.path(), link, request);
        for (range, said, body) in [
            ("0-3", "bytes 0-3/10", "0123"),
            ("8-", "bytes 8-9/10", "89"),
            ("-3", "bytes 7-9/10", "789"),
            ("5-99", "bytes 5-9/10", "56789"),
        ] {
            let text = of(&format!("GET /lab/sub/a%20b HTTP/1.1\r\nRange: bytes={range}"));
            assert!(text.starts_with("HTTP/1.1 206") && text.contains(said), "{text}");
            assert!(text.ends_with(&format!("\r\n\r\n{body}")), "{text}");
        }
        let past = of("GET /lab/sub/a%20b HTTP/1.1\r\nRange: bytes=10-");
        assert!(past.starts_with("HTTP/1.1 416"), "{past}");
        let changed = of("GET /lab/sub/a%20b HTTP/1.1\r\nIf-Match: \"other\"");
        assert!(changed.starts_with("HTTP/1.1 412"), "{changed}");
        for outside in ["GET /lab/none HTTP/1.1", "GET /lab/../../etc/passwd HTTP/1.1"] {
            assert!(of(outside).starts_with("HTTP/1.1 404"), "{outside}");
        }
        let head = of("HEAD /lab/sub/a%20b HTTP/1.1");
        assert!(head.contains("Content-Length: 10") && head.ends_with("\r\n\r\n"), "{head}");
        let list = of("GET /lab?list-type=2&prefix=&delimiter=%2F HTTP/1.1");
        assert!(list.contains("<Prefix>sub/</Prefix>"), "{list}");
        let json = link.json();
        for count in
            ["\"gets\": 8", "\"heads\": 1", "\"lists\": 1", "\"bytes\": 14", "\"at_once\": 0"]
        {
            assert!(json.contains(count), "{count}: {json}");
        }
    }
}
