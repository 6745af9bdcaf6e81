//! Cursors with the traits of `futures-io` and of tokio, beside a cursor over a vector.

#![allow(clippy::cast_possible_truncation, reason = "offsets are drawn from words")]

use crate::recorded;
use crate::support;
use crate::tasks;

use std::future::poll_fn;
use std::io::{Cursor, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::pin::Pin;

use foreread::testing::Mishap;
use foreread::{AsyncCursor, Engine, IoBackend, OpenOptions, WriteMode};
use recorded::{Recorded, recorded};
use support::{PAGE, Random, check, open_faulty, wait_until_idle, with_each_io, write_file};
use tasks::block_on;
use tempfile::TempDir;

const LEN: u64 = (2 << 20) + 77;

fn engine(io: IoBackend) -> Recorded {
    recorded(Engine::builder().memory(1 << 20).dirty_limit(128 << 10).io_backend(io))
}

/// The traits of one of the two crates, as futures.
trait Traits {
    async fn read(cursor: &mut AsyncCursor, to: &mut [u8]) -> std::io::Result<usize>;
    async fn write(cursor: &mut AsyncCursor, from: &[u8]) -> std::io::Result<usize>;
    async fn seek(cursor: &mut AsyncCursor, to: SeekFrom) -> std::io::Result<u64>;
    async fn flush(cursor: &mut AsyncCursor) -> std::io::Result<()>;
}

struct FuturesIo;
struct Tokio;

impl Traits for FuturesIo {
    async fn read(cursor: &mut AsyncCursor, to: &mut [u8]) -> std::io::Result<usize> {
        poll_fn(|context| futures_io::AsyncRead::poll_read(Pin::new(cursor), context, to)).await
    }

    async fn write(cursor: &mut AsyncCursor, from: &[u8]) -> std::io::Result<usize> {
        poll_fn(|context| futures_io::AsyncWrite::poll_write(Pin::new(cursor), context, from)).await
    }

    async fn seek(cursor: &mut AsyncCursor, to: SeekFrom) -> std::io::Result<u64> {
        poll_fn(|context| futures_io::AsyncSeek::poll_seek(Pin::new(cursor), context, to)).await
    }

    async fn flush(cursor: &mut AsyncCursor) -> std::io::Result<()> {
        poll_fn(|context| futures_io::AsyncWrite::poll_close(Pin::new(cursor), context)).await
    }
}

impl Traits for Tokio {
    async fn read(cursor: &mut AsyncCursor, to: &mut [u8]) -> std::io::Result<usize> {
        tokio::io::AsyncReadExt::read(cursor, to).await
    }

    async fn write(cursor: &mut AsyncCursor, from: &[u8]) -> std::io::Result<usize> {
        tokio::io::AsyncWriteExt::write(cursor, from).await
    }

    async fn seek(cursor: &mut AsyncCursor, to: SeekFrom) -> std::io::Result<u64> {
        tokio::io::AsyncSeekExt::seek(cursor, to).await
    }

    async fn flush(cursor: &mut AsyncCursor) -> std::io::Result<()> {
        tokio::io::AsyncWriteExt::flush(cursor).await
    }
}

/// Reads, writes and seeks at random, in a file that grows, and the same in a vector.
async fn walk<T: Traits>(engine: &Engine, path: &Path, mode: WriteMode, seed: u64) {
    let options = OpenOptions::new().write(true).write_mode(mode);
    let file = engine.open_with(path, &options).unwrap();
    let mut cursor = file.async_cursor();
    let mut model = Cursor::new(std::fs::read(path).unwrap());
    let mut random = Random(seed << 32);
    let (mut to, mut want) = (vec![0; 150_000], vec![0; 150_000]);
    for step in 0..400_u64 {
        let len = 1 + random.below(150_000) as usize;
        match random.below(5) {
            0..2 => {
                let got = T::read(&mut cursor, &mut to[..len]).await.unwrap();
                model.read_exact(&mut want[..got]).unwrap();
                assert!(to[..got] == want[..got], "step {step}: other bytes");
                let is_end = model.position() >= model.get_ref().len() as u64;
                assert!(got > 0 || is_end, "step {step}: no byte before the end");
            }
            2..4 => {
                to[..len].fill(step as u8);
                let wrote = T::write(&mut cursor, &to[..len]).await.unwrap();
                assert!(wrote > 0);
                model.write_all(&to[..wrote]).unwrap();
            }
            _ => {
                let end = model.get_ref().len() as u64;
                let seek = match random.below(3) {
                    0 => SeekFrom::Start(random.below(end)),
                    1 => SeekFrom::Current(-(random.below(1 + model.position()) as i64)),
                    _ => SeekFrom::End(50_000 - random.below(end) as i64),
                };
                let at = T::seek(&mut cursor, seek).await.unwrap();
                assert_eq!(model.seek(seek).unwrap(), at);
            }
        }
        assert_eq!(cursor.position(), model.position(), "step {step}");
    }
    T::seek(&mut cursor, SeekFrom::Current(i64::MIN)).await.unwrap_err();
    T::flush(&mut cursor).await.unwrap();
    drop(cursor);
    file.sync_data_async().await.unwrap();
    assert!(std::fs::read(path).unwrap() == *model.get_ref(), "the device has other bytes");
}

#[test]
fn a_cursor_does_what_a_cursor_over_a_vector_does() {
    let dir = TempDir::new().unwrap();
    with_each_io("a_cursor_does_what_a_cursor", |io| {
        let engine = engine(io);
        let path = write_file(dir.path(), 1, LEN);
        block_on(walk::<FuturesIo>(&engine, &path, WriteMode::WriteBack, 1));
        block_on(walk::<FuturesIo>(&engine, &path, WriteMode::WriteThrough, 2));
        let path = write_file(dir.path(), 2, LEN);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(walk::<Tokio>(&engine, &path, WriteMode::WriteBack, 3));
        runtime.block_on(walk::<Tokio>(&engine, &path, WriteMode::WriteThrough, 4));
        wait_until_idle(&engine);
    });
}

/// A scan through it is read ahead, as by any other stream.
#[test]
fn tokio_copies_a_file_from_one_cursor_to_another() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("tokio_copies_a_file", |io| {
        let engine = engine(io);
        let (from, to) = (engine.open(&path).unwrap(), dir.path().join(format!("{io:?}")));
        let options = OpenOptions::new().append(true).create(true);
        let copy = engine.open_with(&to, &options).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            let (mut reader, mut writer) = (from.async_cursor(), copy.async_cursor());
            let bytes = tokio::io::copy(&mut reader, &mut writer).await.unwrap();
            tokio::io::AsyncWriteExt::flush(&mut writer).await.unwrap();
            assert_eq!((bytes, writer.position()), (LEN, LEN));
            copy.sync_data_async().await.unwrap();
        });
        check(1, 0, &std::fs::read(&to).unwrap());
        let path = engine.counters().unwrap().path;
        assert!(path.pages_ahead > path.pages_missed, "{path:?}");
        drop((from, copy));
        wait_until_idle(&engine);
    });
}

/// A poll may come with another buffer than the one before, also with a shorter one.
#[test]
fn a_read_that_waits_takes_whatever_buffer_comes_next() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_read_that_waits_takes_whatever_buffer", |io| {
        let engine = engine(io);
        let (file, faults) = open_faulty(&engine, &path);
        let mut cursor = file.async_cursor();
        let poll = |cursor: &mut AsyncCursor, to: &mut [u8]| {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            futures_io::AsyncRead::poll_read(Pin::new(cursor), &mut context, to)
        };
        for (held, page) in (1..).zip([10, 100, 200]) {
            faults.inject(page..page + 1, 0..1, Mishap::Hold);
            cursor.set_position(page * PAGE);
            assert!(poll(&mut cursor, &mut [0; 10_000]).is_pending());
            assert!(poll(&mut cursor, &mut [0; 20_000]).is_pending());
            assert!(poll(&mut cursor, &mut [0; 10]).is_pending());
            faults.wait_held(held);
            faults.let_go();
            let mut to = [0; 500];
            let got = block_on(FuturesIo::read(&mut cursor, &mut to)).unwrap();
            assert!((1..=10).contains(&got) || got == 500, "{got}");
            check(1, page * PAGE, &to[..got]);
        }
        drop((cursor, file));
        wait_until_idle(&engine);
    });
}

#[test]
fn the_error_of_a_write_that_went_on_comes_with_the_next_call() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("the_error_of_a_write_that_went_on", |io| {
        let engine = engine(io);
        let faults = std::sync::Arc::new(foreread::testing::Faults::default());
        let options = OpenOptions::new().write(true).faults(std::sync::Arc::clone(&faults));
        let file = engine.open_with(&path, &options).unwrap();
        // The rest of the page cannot be read.
        faults.inject(30..31, 0..u32::MAX, Mishap::Errno(libc::EIO));
        let mut cursor = file.async_cursor();
        cursor.set_position(30 * PAGE + 5);
        let wrote = block_on(FuturesIo::write(&mut cursor, &[1; 10]));
        let flushed = block_on(FuturesIo::flush(&mut cursor));
        assert!(wrote.is_err() || flushed.is_err(), "the device refused it");
        block_on(FuturesIo::flush(&mut cursor)).unwrap();
        let reader = engine.open(write_file(dir.path(), 2, LEN)).unwrap();
        let refused = block_on(FuturesIo::write(&mut reader.async_cursor(), &[1])).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
        faults.clear();
        drop((cursor, file, reader));
        wait_until_idle(&engine);
    });
}
