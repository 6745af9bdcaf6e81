//! The futures on smol: its executor (`async-executor`) and the combinators of `futures-lite`.
//!
//! In:    tasks that move between two threads.
//! Out:   the right bytes, read and written.
//! Never: a runtime of the engine's.

#![allow(clippy::cast_possible_truncation, reason = "offsets are small")]

use crate::support;

use async_executor::Executor;
use foreread::{Engine, File, OpenOptions, WriteError};
use futures_lite::future::{block_on, or, pending};
use futures_lite::stream::{Stream, StreamExt as _};
use support::{check, with_each_io, write_file};
use tempfile::TempDir;

const LEN: u64 = 3 << 20;
const TASKS: u64 = 16;

/// Runs tasks on the calling thread and on one more, until `work` is over.
fn on_two_threads<T>(executor: &Executor<'_>, work: impl Future<Output = T>) -> T {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            let until = async {
                while stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                    futures_lite::future::yield_now().await;
                }
            };
            block_on(or(executor.run(pending::<()>()), until));
        });
        let value = block_on(executor.run(work));
        drop(stop);
        other.join().expect("it runs tasks and no more");
        value
    })
}

async fn append_and_flush(log: File, record: Vec<u8>) -> Result<(u64, Vec<u8>), WriteError> {
    let (record, offset) = log.append_from(record).await;
    log.sync_data_async().await?;
    Ok((offset?, record))
}

#[test]
fn tasks_of_smol_read_append_and_flush() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("tasks_of_smol_read_append_and_flush", |io| {
        let engine = Engine::builder().memory(1 << 20).io_backend(io).build().unwrap();
        let table = engine.open(&path).unwrap();
        let options = OpenOptions::new().append(true).create(true);
        let log = engine.open_with(dir.path().join(format!("log {io:?}")), &options).unwrap();
        let executor = Executor::new();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (table, log) = (table.clone(), log.clone());
                executor.spawn(async move {
                    for step in 0..20 {
                        let offset = (task * 7919 + step * 104_729) % (LEN - 5000);
                        let (buffer, read) = table.read_into(vec![0; 5000], offset).await;
                        assert_eq!(read.unwrap(), 5000);
                        check(1, offset, &buffer);
                    }
                    append_and_flush(log, vec![task as u8; 1000]).await.unwrap()
                })
            })
            .collect();
        let records = on_two_threads(&executor, async {
            let mut records = Vec::new();
            for task in tasks {
                records.push(task.await);
            }
            records
        });
        assert_eq!(log.len(), TASKS * 1000);
        for (offset, record) in records {
            let mut found = vec![0; 1000];
            log.read_exact_at(&mut found, offset).unwrap();
            assert_eq!(found, record, "each in one piece");
        }
    });
}

#[test]
fn ranges_are_a_stream_for_its_combinators() {
    fn is_stream<T: Stream + Unpin>(stream: T) -> T {
        stream
    }

    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    let engine = Engine::builder().memory(1 << 20).build().unwrap();
    let file = engine.open(&path).unwrap();
    let ranges: Vec<_> = (0..50).map(|n| n * 50_000..n * 50_000 + 3000).collect();
    let stream = is_stream(file.read_ranges_stream(&ranges));
    let mut numbers: Vec<usize> = block_on(
        stream
            .map(|(number, bytes)| {
                check(1, ranges[number].start, &bytes.unwrap());
                number
            })
            .collect(),
    );
    numbers.sort_unstable();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>(), "each range once");
}
