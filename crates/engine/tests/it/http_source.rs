//! The example that reads from an HTTP server, against a small one.
//!
//! In:    the example's source, a server in a thread.
//! Out:   the server's bytes; its refusals, as errors.
//! Never: a network but the machine's own.

#[path = "../../examples/http_source.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example has a main of its own")]
mod example;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use example::HttpFile;
use foreread::{Blocking, Engine};

const LEN: usize = 1_000_001;

fn contents() -> Vec<u8> {
    (0..LEN).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect()
}

/// Answers until its listener is gone; the ETag is the version.
fn serve(listener: &TcpListener, version: &AtomicU64) {
    let bytes = contents();
    for stream in listener.incoming().map_while(Result::ok) {
        // A client that has heard enough may leave.
        let _ = answer(&stream, &bytes, &format!("\"{}\"", version.load(Ordering::SeqCst)));
    }
}

fn answer(mut stream: &TcpStream, bytes: &[u8], etag: &str) -> std::io::Result<()> {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    let value = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name));
    let len = bytes.len();
    if lines.first().is_some_and(|line| line.starts_with("HEAD")) {
        return write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {len}\r\nETag: {etag}\r\n\r\n");
    }
    if value("If-Match: ") != Some(etag) {
        return write!(stream, "HTTP/1.0 412 Precondition Failed\r\n\r\n");
    }
    let range = value("Range: bytes=").and_then(|range| range.split_once('-')).unwrap();
    let (start, end) = (range.0.parse::<usize>().unwrap(), range.1.parse::<usize>().unwrap());
    assert!(start <= end && end < len, "a range within the file");
    write!(stream, "HTTP/1.0 206 Partial Content\r\n\r\n")?;
    stream.write_all(&bytes[start..=end])
}

#[test]
fn a_file_of_an_http_server_is_read_like_any_other() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let version = Arc::new(AtomicU64::new(1));
    let of_server = Arc::clone(&version);
    std::thread::spawn(move || serve(&listener, &of_server));

    let engine = Engine::builder().memory(4 << 20).build().unwrap();
    let open = || engine.open_source(Blocking::new(HttpFile::open(&host, "/file").unwrap()));
    let file = open().unwrap();
    assert_eq!(file.len(), LEN as u64);
    let mut to = vec![0; LEN + 10];
    assert_eq!(file.read_at(&mut to, 0).unwrap(), LEN);
    assert!(to[..LEN] == contents(), "other bytes than the server's");
    let reads = engine.counters().unwrap().path.device_reads;
    assert_eq!(open().unwrap().read_at(&mut to[..100], 5000).unwrap(), 100);
    assert_eq!(engine.counters().unwrap().path.device_reads, reads, "a hit");

    // Another version on the server: the file that is open says so, and can be opened anew.
    version.store(2, Ordering::SeqCst);
    file.dont_need(0..LEN as u64).unwrap();
    let error = file.read_at(&mut to[..100], 0).unwrap_err();
    assert!(error.to_string().contains("412 Precondition Failed"), "{error}");
    assert_eq!(open().unwrap().read_at(&mut to[..100], 5000).unwrap(), 100);
}
