//! Code of others that runs inside calls of the engine, and what it may do there: wakers that are
//! dropped or called, iterators, panics that unwind.

use crate::support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use foreread::testing::Mishap;
use foreread::{Engine, File, Policy};
use support::{
    PAGE, Watchdog, open_faulty, read_and_check, wait_until, wait_until_idle, with_each_io,
    write_file,
};
use tempfile::TempDir;

/// Notes that it was called.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// A database finds its next pages by reading others: its iterator once waited for the engine's
/// mutex, which its caller held.
#[test]
fn the_ranges_of_a_hint_may_come_from_reads_of_the_same_engine() {
    let _watchdog = Watchdog::new("the_ranges_of_a_hint_may_come_from_reads");
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, 4 << 20);
    let engine = Engine::builder().memory(8 << 20).policy(Policy::None).build().unwrap();
    let file = engine.open(&path).unwrap();
    let ranges = (0..4).map(|number| {
        let at = number << 20;
        read_and_check(&file, 1, &mut [0; 8], at);
        at + PAGE..at + 3 * PAGE
    });
    assert_eq!(file.will_need(ranges).unwrap(), 8);
    wait_until_idle(&engine);
}

/// A waker may be the last that keeps a task, and the task the last that keeps a file.
#[test]
fn a_waker_that_is_dropped_may_close_a_file() {
    struct Owner(#[allow(dead_code, reason = "it is there to be dropped")] Mutex<Option<File>>);

    impl Wake for Owner {
        fn wake(self: Arc<Self>) {}
    }

    with_each_io("a_waker_that_is_dropped_may_close_a_file", |io| {
        let dir = TempDir::new().unwrap();
        let (path, other) = (write_file(dir.path(), 1, 1 << 20), write_file(dir.path(), 2, PAGE));
        let engine = Engine::builder().memory(1 << 20).io_backend(io).build().unwrap();
        let owner = || Waker::from(Arc::new(Owner(Mutex::new(engine.open(&other).ok()))));
        let (file, faults) = open_faulty(&engine, &path);
        faults.inject(0..256, 0..1, Mishap::Hold);
        let mut buffer = [0; 4096];
        let mut read = file.read_at_async(&mut buffer, 0);
        assert!(poll(&mut read, &owner()).is_pending());
        assert!(poll(&mut read, &owner()).is_pending(), "the first waker goes");
        drop(read);
        let mut read = file.read_at_async(&mut buffer, 0);
        let flag = Arc::new(Flag::default());
        assert!(poll(&mut read, &owner()).is_pending());
        assert!(poll(&mut read, &Waker::from(Arc::clone(&flag))).is_pending());
        faults.let_go();
        wait_until(|| flag.0.load(Ordering::Acquire));
        assert!(poll(&mut read, &owner()).is_ready());
        wait_until_idle(&engine);
    });
}

/// Frames that were given back while a thread unwound once started reads that had no leader.
#[test]
fn futures_that_a_panic_drops_leave_no_reader_waiting() {
    with_each_io("futures_that_a_panic_drops_leave_no_reader_waiting", |io| {
        let dir = TempDir::new().unwrap();
        let path = write_file(dir.path(), 1, 8 << 20);
        let builder = Engine::builder().memory(1 << 20).policy(Policy::None).io_backend(io);
        let engine = builder.build().unwrap();
        let (file, faults) = open_faulty(&engine, &path);
        faults.inject(0..2048, 0..100, Mishap::Hold);
        // Each holds an eighth of the frames until it is polled again.
        let mut buffers = vec![vec![0; 64 << 10]; 16];
        let mut streams: Vec<_> = buffers.iter().map(|_| file.stream()).collect();
        let mut reads = Vec::new();
        for (number, (stream, buffer)) in (0..).zip(streams.iter_mut().zip(&mut buffers)) {
            let flag = Arc::new(Flag::default());
            let mut read = stream.read_at_async(buffer, number << 19);
            assert!(poll(&mut read, &Waker::from(Arc::clone(&flag))).is_pending());
            reads.push((read, flag));
        }
        faults.clear();
        faults.let_go();
        let is_woken = |flag: &Arc<Flag>| flag.0.load(Ordering::Acquire);
        wait_until(|| reads.iter().filter(|(_, flag)| is_woken(flag)).count() >= 10);
        // Until the thread in the background has nothing to do.
        wait_until(|| engine.counters().unwrap().path.waited_for_frames > 0);
        for _ in 0..100_000 {
            std::thread::yield_now();
        }
        let last = reads.pop().unwrap();
        assert!(!is_woken(&last.1), "it waits for frames");
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _reads = reads;
            panic!("as a task may");
        }));
        assert!(unwound.is_err());
        wait_until(|| is_woken(&last.1));
        drop(last);
        wait_until_idle(&engine);
    });
}
