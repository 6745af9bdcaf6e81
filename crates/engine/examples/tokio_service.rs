//! A TCP service on tokio that sends ranges of a file. Its clients share cache, read-ahead and
//! memory limit.
//!
//! In:    `cargo run -p foreread --example tokio_service -- FILE [ADDRESS]`; from a client any
//!        number of requests: offset and length, eight bytes each, little-endian.
//! Out:   for each request the number of bytes, then the bytes; fewer at the end of the file.
//! Never: a thread for each client, or a buffer of the size of a range.

use std::io;
use std::net::SocketAddr;

use foreread::{Engine, File};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::{TcpListener, TcpStream};

/// Serves a file until the task is dropped.
pub async fn serve(listener: TcpListener, file: File) -> io::Result<()> {
    loop {
        let (client, address) = listener.accept().await?;
        let file = file.clone();
        tokio::spawn(async move {
            if let Err(error) = serve_client(client, &file).await {
                eprintln!("{address}: {error}");
            }
        });
    }
}

async fn serve_client(client: TcpStream, file: &File) -> io::Result<()> {
    let mut client = BufStream::new(client);
    // A cursor is a stream: each client gets its own read-ahead windows.
    let mut cursor = file.async_cursor();
    loop {
        let offset = match client.read_u64_le().await {
            Ok(offset) => offset,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let len = client.read_u64_le().await?.min(file.len().saturating_sub(offset));
        client.write_u64_le(len).await?;
        cursor.set_position(offset);
        let sent = tokio::io::copy(&mut (&mut cursor).take(len), &mut client).await?;
        if sent < len {
            return Err(io::Error::other("the file has become shorter"));
        }
        client.flush().await?;
    }
}

/// Requests a range from a service and returns its bytes.
pub async fn fetch(client: &mut TcpStream, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    client.write_u64_le(offset).await?;
    client.write_u64_le(len).await?;
    let len = client.read_u64_le().await?;
    let mut bytes = Vec::new();
    client.take(len).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        println!("usage: tokio_service FILE [ADDRESS]");
        return Ok(());
    };
    let address: SocketAddr = args.next().as_deref().unwrap_or("127.0.0.1:7000").parse()?;
    let file = Engine::builder().memory(64 << 20).build()?.open(path)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        println!("{} bytes at {address}", file.len());
        serve(listener, file).await
    })?;
    Ok(())
}
