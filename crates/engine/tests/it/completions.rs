//! Callbacks: each called once, by the thread that runs the queue, whatever happens.

use crate::recorded;
use crate::support;

#[path = "../../examples/callbacks.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example has a main of its own")]
mod callbacks;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use foreread::testing::{Faults, Mishap};
use foreread::{Engine, File, IoBackend, OpenOptions, ReadError};
use recorded::{Recorded, recorded};
use support::{
    PAGE, Random, check, fill, open_faulty, wait_until, wait_until_closed, wait_until_idle,
    with_each_io, write_file,
};
use tempfile::TempDir;

const LEN: u64 = (3 << 20) + 777;

fn engine(io: IoBackend) -> Recorded {
    recorded(Engine::builder().memory(1 << 20).dirty_limit(64 << 10).io_backend(io))
}

fn open_for_writing(engine: &Engine, path: &std::path::Path) -> (File, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    let options = OpenOptions::new().write(true).faults(Arc::clone(&faults));
    (engine.open_with(path, &options).unwrap(), faults)
}

#[test]
fn each_callback_is_called_once_in_the_thread_that_runs_the_queue() {
    const REQUESTS: usize = 2000;

    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("each_callback_is_called_once", |io| {
        let engine = engine(io);
        let (file, _) = open_for_writing(&engine, &path);
        let queue = engine.completion_queue();
        let calls = Rc::new(RefCell::new(vec![0; REQUESTS]));
        let (mut random, thread) = (Random(5), std::thread::current().id());
        for number in 0..REQUESTS {
            let mut bytes = vec![0; 1 + usize::try_from(random.below(20_000)).unwrap()];
            let offset = random.below(LEN - 20_000);
            let (calls, len) = (Rc::clone(&calls), bytes.len());
            let called = move || {
                assert_eq!(std::thread::current().id(), thread);
                calls.borrow_mut()[number] += 1;
            };
            match random.below(7) {
                0..3 => queue.read(&file, bytes, offset, move |_, bytes, result| {
                    assert_eq!(result.unwrap(), len);
                    check(1, offset, &bytes);
                    called();
                }),
                3..6 => {
                    fill(1, offset, &mut bytes);
                    queue.write(&file, bytes, offset, move |_, bytes, result| {
                        assert_eq!((result.unwrap(), bytes.len()), (len, len));
                        called();
                    });
                }
                _ => queue.sync_data(&file, move |_, result| {
                    result.unwrap();
                    called();
                }),
            }
            // None inside of a submission.
            assert_eq!(calls_of(&queue, &file), 0);
        }
        let mut called = 0;
        while queue.pending() > 0 {
            called += queue.run(None);
        }
        assert!(called >= REQUESTS);
        assert!(calls.borrow().iter().all(|&calls| calls == 1), "each once");
        assert_eq!(queue.run(None), 0, "nothing is pending");
        drop(queue);
        wait_until_idle(&engine);
    });

    /// A request of a hit has ended when it is submitted, and is called back later all the same.
    fn calls_of(queue: &foreread::CompletionQueue, file: &File) -> usize {
        let (called, before) = (Rc::new(Cell::new(0)), queue.pending());
        let count = Rc::clone(&called);
        queue.read(file, [0; 0], 0, move |_, _, _| count.set(1));
        assert_eq!(queue.pending(), before + 1);
        called.get()
    }
}

#[test]
fn a_callback_may_submit_block_and_run_the_queue() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_callback_may_submit_block_and_run", |io| {
        let engine = engine(io);
        let (file, _) = open_for_writing(&engine, &path);
        let queue = engine.completion_queue();
        let called = Rc::new(Cell::new(0));
        for page in 0..20 {
            let (file, called) = (file.clone(), Rc::clone(&called));
            let first = file.clone();
            queue.read(&first, vec![0; 100], page * PAGE, move |queue, bytes, result| {
                assert_eq!(result.unwrap(), 100);
                let again = Rc::clone(&called);
                let other = (page + 300) * PAGE;
                queue.write(&file, bytes, other, move |_, _, result| {
                    assert_eq!(result.unwrap(), 100);
                    again.set(again.get() + 1);
                });
                // It waits for the device, and for that write if it has the page.
                file.write_all_at(&[1; 50], other + 50).unwrap();
                if page % 4 == 0 {
                    queue.run(None);
                }
                called.set(called.get() + 1);
            });
        }
        while queue.pending() > 0 {
            queue.run(None);
        }
        assert_eq!(called.get(), 40);
        wait_until_idle(&engine);
    });
}

#[test]
fn a_panic_in_a_callback_leaves_the_others_and_the_queue() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_panic_in_a_callback", |io| {
        let engine = engine(io);
        let file = engine.open(&path).unwrap();
        let queue = engine.completion_queue();
        let called = Rc::new(Cell::new(0));
        for page in 0..10 {
            let called = Rc::clone(&called);
            queue.read(&file, [0; 10], page * 50 * PAGE, move |_, _, _| {
                called.set(called.get() + 1);
                assert!(page % 2 == 0, "on purpose");
            });
        }
        let mut panics = 0;
        while queue.pending() > 0 {
            let run = catch_unwind(AssertUnwindSafe(|| queue.run(None)));
            panics += usize::from(run.is_err());
        }
        assert_eq!((called.get(), panics), (10, 5));
        wait_until_idle(&engine);
    });
}

#[test]
fn a_queue_that_is_dropped_calls_all_and_one_that_is_abandoned_none() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_queue_that_is_dropped", |io| {
        let engine = engine(io);
        let (file, faults) = open_faulty(&engine, &path);
        let called = Rc::new(Cell::new(0));
        let submit = |queue: &foreread::CompletionQueue, page: u64| {
            let called = Rc::clone(&called);
            let count = move |_: &_, _, result: Result<usize, ReadError>| {
                assert_eq!(result.unwrap(), 100);
                called.set(called.get() + 1);
            };
            queue.read(&file, [0; 100], page * PAGE, count);
        };
        let queue = engine.completion_queue();
        (0..40).for_each(|page| submit(&queue, page * 3));
        drop(queue);
        assert_eq!(called.get(), 40);

        faults.inject(500..501, 0..1, Mishap::Hold);
        let queue = engine.completion_queue();
        (0..40).for_each(|page| submit(&queue, 500 + page));
        faults.wait_held(1);
        assert_eq!(queue.run_ready() + queue.run(Some(Duration::ZERO)), called.get() - 40);
        let before = called.get();
        queue.abandon();
        assert_eq!((called.get(), Rc::strong_count(&called)), (before, 1));
        faults.let_go();
        drop(file);
        wait_until_idle(&engine);
        drop(engine);
        wait_until_closed(&faults);
    });
}

#[test]
fn a_loop_that_sleeps_elsewhere_is_notified() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_loop_that_sleeps_elsewhere", |io| {
        let engine = engine(io);
        let (file, faults) = open_faulty(&engine, &path);
        let notified = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&notified);
        let queue = engine.completion_queue_with(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        faults.inject(100..101, 0..1, Mishap::Hold);
        let called = Rc::new(Cell::new(false));
        let is_called = Rc::clone(&called);
        queue.read(&file, [0; 10], 100 * PAGE, move |_, bytes, _| {
            check(1, 100 * PAGE, &bytes);
            is_called.set(true);
        });
        faults.wait_held(1);
        assert_eq!((notified.load(Ordering::SeqCst), queue.run_ready()), (0, 0));
        faults.let_go();
        wait_until(|| notified.load(Ordering::SeqCst) > 0);
        wait_until(|| queue.run_ready() > 0);
        assert!(called.get() && queue.pending() == 0);
        drop((queue, file));
        wait_until_idle(&engine);
    });
}

#[test]
fn the_example_copies_a_file() {
    let dir = TempDir::new().unwrap();
    let (path, to) = (write_file(dir.path(), 1, LEN), dir.path().join("copy"));
    with_each_io("the_example_copies_a_file", |io| {
        let engine = engine(io);
        assert_eq!(callbacks::copy(&engine, &path, &to).unwrap(), LEN);
        check(1, 0, &std::fs::read(&to).unwrap());
    });
}
