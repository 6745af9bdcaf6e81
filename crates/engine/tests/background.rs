//! The background thread: there when no thread waits for what is in flight, gone with the engine.
//!
//! A process of its own, so that the thread that is counted is this engine's.

mod common;
mod hang;
mod recorded;
mod support;

use std::fs;
use std::future::Future as _;
use std::task::{Context, Waker};

use foreread::Engine;
use recorded::recorded;
use support::{check, read_and_check, wait_until, with_each_io, write_file};
use tempfile::TempDir;

const LEN: u64 = 1 << 20;

/// How many threads have the name of the background thread.
fn background_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "foreread").count()
}

#[test]
fn it_starts_with_the_first_task_and_ends_with_the_engine() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("it_starts_with_the_first_task_and_ends_with_the_engine", |io| {
        let engine = recorded(Engine::builder().memory(1 << 20).io_backend(io));
        let file = engine.open(&path).unwrap();
        for offset in (0..LEN).step_by(100_000) {
            read_and_check(&file, 1, &mut [0; 5000], offset);
        }
        assert_eq!(background_threads(), 0, "threads that read serve themselves");

        let mut buffer = [0; 5000];
        let mut read = Box::pin(file.read_at_async(&mut buffer, 750_000));
        let mut context = Context::from_waker(Waker::noop());
        while read.as_mut().poll(&mut context).is_pending() {
            std::thread::yield_now();
        }
        drop(read);
        check(1, 750_000, &buffer);
        wait_until(|| background_threads() == 1);
        drop((file, engine));
        wait_until(|| background_threads() == 0);
    });
}
