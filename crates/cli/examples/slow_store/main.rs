//! An object store with known latency and throughput, and counters, for measurements on one
//! machine.
//!
//! ```console
//! $ cargo run --release -p foreread-cli --example slow_store -- DIR A=20,80 C=20,80,jitter
//! A http://127.0.0.1:36121
//! C http://127.0.0.1:40817
//! control http://127.0.0.1:33279
//! ```
//!
//! Each folder of DIR is a bucket, and each file below it an object. A link is
//! `NAME=MS,MB[,jitter]`: the first byte of a response leaves after MS milliseconds, the rest at MB
//! megabytes (10^6 bytes) a second on each connection; 0 MB is no limit. With
//! `jitter` MS is the median of a log-normal latency (sigma 0.5), and one request in 100 takes ten
//! times as long.
//!
//! In:    GET of ranges, HEAD, `ListObjectsV2`, with any signature or none.
//! Out:   the bytes of the files, from the page cache to the socket without a copy. At `control`:
//!        `/stats` and `/reset`.
//! Never: a check of a signature; the delay of a new connection, which a real store has.

#[allow(unreachable_pub, reason = "shared with the tests")]
#[path = "../../../object/tests/bucket_server/http.rs"]
mod http;
mod link;
#[allow(unreachable_pub, reason = "shared with the tests")]
#[allow(dead_code, reason = "it lists as S3 does, and only so")]
#[path = "../../../object/tests/bucket_server/listing.rs"]
mod listing;
mod object;

use std::error::Error;
use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use http::{Request, answer};
use link::Link;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let directory = args.next().ok_or("slow_store DIR NAME=MS,MB[,jitter]..")?;
    let directory: &'static Path = Box::leak(PathBuf::from(directory).into_boxed_path());
    let mut links = Vec::new();
    for text in args {
        let text = text.into_string().map_err(|_| "the name of a link is UTF-8")?;
        links.push(Link::parse(&text).ok_or_else(|| format!("{text}: NAME=MS,MB[,jitter]"))?);
    }
    let links: &'static [Link] = links.leak();
    for link in links {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        println!("{} http://{}", link.name(), listener.local_addr()?);
        accept(listener, move |stream| object::serve(directory, link, &stream));
    }
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("control http://{}", listener.local_addr()?);
    let control = accept(listener, move |stream| control(links, stream));
    control.join().map_err(|_| "the thread of the control port panicked")?;
    Ok(())
}

/// Serves each connection in its own thread.
fn accept(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> std::io::Result<()> + Clone + Send + 'static,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            // A client that hangs up ends its connection.
            std::thread::spawn(move || drop(serve(stream)));
        }
    })
}

fn control(links: &[Link], mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(request) = Request::read(&mut reader)? {
        match &*request.target {
            "/reset" => {
                links.iter().for_each(Link::reset);
                answer(&mut stream, &request, 200, "", b"")?;
            }
            "/stats" => {
                let links: Vec<_> = links.iter().map(Link::json).collect();
                let body = format!("{{{}}}\n", links.join(", "));
                answer(&mut stream, &request, 200, "", body.as_bytes())?;
            }
            _ => answer(&mut stream, &request, 404, "", b"/stats, /reset\n")?,
        }
    }
    Ok(())
}
