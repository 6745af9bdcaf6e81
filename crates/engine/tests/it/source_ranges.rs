//! Sources beside files and each other: range reads, pins, dropped futures, and sources that hang.
//!
//! In:    sources that answer at once, in threads, or not at all; each kind of ring.
//! Out:   the bytes of each; every frame given back.
//! Never: a source that holds back another, or a file.

use crate::support;
use crate::tasks;

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};

use foreread::{Blocking, Engine, File, IoBackend, ReadRange, Reply, Source, SourceIdentity};
use support::{PAGE, Random, check, fill, wait_until_idle, with_each_io, write_file};
use tasks::block_on;
use tempfile::tempdir;

const LEN: u64 = 200 * PAGE + 77;

/// The bytes of a numbered file.
struct Numbered(u64);

impl ReadRange for Numbered {
    fn identity(&self) -> SourceIdentity {
        SourceIdentity::new(format!("numbered {}", self.0), "1")
    }

    fn length(&self) -> io::Result<u64> {
        Ok(LEN)
    }

    fn read_range(&self, range: Range<u64>, reply: &mut Reply) -> io::Result<()> {
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
        fill(self.0, range.start, &mut bytes);
        bytes.chunks(5000).try_for_each(|part| reply.write(part))
    }
}

/// Keeps its replies, and answers none.
#[derive(Clone, Default)]
struct Hangs(Arc<Mutex<Vec<Asked>>>, u64);

type Asked = (Range<u64>, Reply);

impl Source for Hangs {
    fn identity(&self) -> SourceIdentity {
        SourceIdentity::new(format!("hangs {}", self.1), "1")
    }

    fn length(&self) -> io::Result<u64> {
        Ok(1 << 30)
    }

    fn fetch(&self, range: Range<u64>, reply: Reply) {
        self.0.lock().unwrap().push((range, reply));
    }
}

impl Hangs {
    fn requests(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Answers all, and all that follow.
    fn answer(&self) {
        loop {
            // Not under the lock: the engine may ask for more at once.
            let Some((range, mut reply)) = self.0.lock().unwrap().pop() else { return };
            let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
            fill(self.1, range.start, &mut bytes);
            reply.write(&bytes).unwrap();
            reply.finish();
        }
    }
}

fn engine_of(io: IoBackend, memory: u64) -> Engine {
    Engine::builder().memory(memory).io_backend(io).record(1 << 22).build().unwrap()
}

fn numbered(engine: &Engine, number: u64) -> File {
    engine.open_source(Blocking::new(Numbered(number))).unwrap()
}

fn some_ranges(random: &mut Random) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    for _ in 0..random.below(20) {
        let start = random.below(LEN);
        ranges.push(start..start + random.below(30_000));
    }
    ranges
}

fn check_all(number: u64, ranges: &[Range<u64>], results: &[Box<[u8]>]) {
    assert_eq!(ranges.len(), results.len());
    for (range, bytes) in ranges.iter().zip(results) {
        assert_eq!(bytes.len() as u64, range.end.min(LEN) - range.start, "{range:?}");
        check(number, range.start, bytes);
    }
}

/// The calls that a thread has to make are a thread-local value, too: once that was gone, the next
/// call of a source ended the process.
#[test]
fn a_thread_that_ends_may_read_from_a_source() {
    struct LastRead(File, mpsc::Sender<Vec<u8>>);

    impl Drop for LastRead {
        fn drop(&mut self) {
            let mut to = vec![0; 5000];
            let len = self.0.read_at(&mut to, 100 * PAGE).unwrap();
            assert_eq!(len, to.len());
            self.1.send(to).unwrap();
        }
    }

    thread_local!(static LAST: RefCell<Option<LastRead>> = const { RefCell::new(None) });

    let file = numbered(&Engine::builder().memory(1 << 20).build().unwrap(), 5);
    let (sender, read) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        // Before the values of the engine, which therefore go first.
        LAST.set(Some(LastRead(file.clone(), sender)));
        let mut to = [0; 100];
        assert_eq!(file.read_at(&mut to, 0).unwrap(), 100);
        check(5, 0, &to);
    });
    thread.join().unwrap();
    check(5, 100 * PAGE, &read.recv().unwrap());
}

#[test]
fn many_sources_are_read_side_by_side_with_a_file() {
    with_each_io("many_sources_are_read_side_by_side_with_a_file", |io| {
        let dir = tempdir().unwrap();
        let engine = engine_of(io, 1 << 20);
        let mut files: Vec<_> = (0..12).map(|number| numbered(&engine, number)).collect();
        files.push(engine.open(write_file(dir.path(), 12, LEN)).unwrap());
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let files = &files;
                scope.spawn(move || {
                    let mut random = Random(seed);
                    for _ in 0..30 {
                        let number = random.below(files.len() as u64);
                        let file = &files[usize::try_from(number).unwrap()];
                        let ranges = some_ranges(&mut random);
                        check_all(number, &ranges, &file.read_ranges(&ranges).unwrap());
                        let read = block_on(file.read_ranges_async(&ranges)).unwrap();
                        check_all(number, &ranges, &read);
                        let page = random.below(LEN / PAGE) * PAGE;
                        // A quarter of the memory may be pinned, and that is not much here.
                        if let Ok(pin) = file.stream().pin(page) {
                            check(number, page, &pin);
                        }
                    }
                });
            }
        });
        drop(files);
        wait_until_idle(&engine);
        engine.replay().unwrap();
    });
}

#[test]
fn ranges_of_a_source_that_are_dropped_lose_no_frame() {
    with_each_io("ranges_of_a_source_that_are_dropped_lose_no_frame", |io| {
        let engine = engine_of(io, 1 << 20);
        let file = numbered(&engine, 3);
        let mut context = Context::from_waker(Waker::noop());
        let mut random = Random(4);
        for _ in 0..200 {
            let ranges = some_ranges(&mut random);
            let mut future = pin!(file.read_ranges_async(&ranges));
            for _ in 0..random.below(4) {
                if let Poll::Ready(read) = future.as_mut().poll(&mut context) {
                    check_all(3, &ranges, &read.unwrap());
                    break;
                }
            }
            file.dont_need(0..LEN).unwrap();
        }
        wait_until_idle(&engine);
        engine.replay().unwrap();
    });
}

/// More than a thousand requests without an answer once held back every other request.
#[test]
fn sources_that_hang_hold_back_no_file_and_no_other_source() {
    with_each_io("sources_that_hang_hold_back_no_file_and_no_other_source", |io| {
        let dir = tempdir().unwrap();
        let engine = Engine::builder().memory(64 << 20).io_backend(io).build().unwrap();
        let hanging: Vec<_> = (0..20).map(|number| Hangs(Arc::default(), number)).collect();
        let open = |source: &Hangs| engine.open_source(source.clone()).unwrap();
        let files: Vec<_> = hanging.iter().map(open).collect();
        for file in &files {
            // No two are neighbours.
            let asked = file.will_need((0..64).map(|n| n * 3 * PAGE..(n * 3 + 1) * PAGE)).unwrap();
            assert_eq!(asked, 64);
        }
        assert!(hanging.iter().map(Hangs::requests).sum::<usize>() > 1024);
        let file = engine.open(write_file(dir.path(), 40, LEN)).unwrap();
        support::read_and_check(&file, 40, &mut vec![0; 100_000], 5000);
        let ranges = [0..10_000, 100_000..200_000];
        check_all(40, &ranges, &file.read_ranges(&ranges).unwrap());
        let source = numbered(&engine, 41);
        check_all(41, &ranges, &source.read_ranges(&ranges).unwrap());
        for source in &hanging {
            source.answer();
        }
        wait_until_idle(&engine);
    });
}
