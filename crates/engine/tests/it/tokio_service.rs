//! The example that serves ranges of a file on tokio, with clients that ask for all kinds of them.

use crate::support;

#[path = "../../examples/tokio_service.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example has a main of its own")]
mod example;

use foreread::Engine;
use support::{Random, check, wait_until_idle, with_each_io, write_file};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

const LEN: u64 = (3 << 20) + 777;

#[test]
fn each_client_gets_the_bytes_of_its_ranges() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("each_client_gets_the_bytes_of_its_ranges", |io| {
        let engine = Engine::builder().memory(1 << 20).io_backend(io).build().unwrap();
        let file = engine.open(&path).unwrap();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let service = tokio::spawn(example::serve(listener, file));
            let clients: Vec<_> = (0..12)
                .map(|client| {
                    tokio::spawn(async move {
                        let mut stream = TcpStream::connect(address).await.unwrap();
                        let (mut random, mut next) = (Random(client << 32), 0);
                        for _ in 0..30 {
                            let offset = if client % 2 == 0 { next } else { random.below(LEN + 9) };
                            let len = random.below(200_000);
                            let bytes = example::fetch(&mut stream, offset, len).await.unwrap();
                            let expected = len.min(LEN.saturating_sub(offset));
                            assert_eq!(bytes.len() as u64, expected, "{len} at {offset}");
                            check(1, offset, &bytes);
                            next = offset + expected;
                        }
                        for (offset, len) in [(u64::MAX, 1), (0, u64::MAX), (LEN, 1)] {
                            let bytes = example::fetch(&mut stream, offset, len).await.unwrap();
                            assert_eq!(bytes.len() as u64, if offset == 0 { LEN } else { 0 });
                        }
                    })
                })
                .collect();
            for client in clients {
                client.await.unwrap();
            }
            service.abort();
        });
        drop(runtime);
        wait_until_idle(&engine);
    });
}
