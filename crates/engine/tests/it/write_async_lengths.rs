//! Files that grow and shrink without blocking a thread: appends, writes past the end, lengths.

use crate::recorded;
use crate::support;
use crate::tasks;

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use foreread::{Engine, File, IoBackend, OpenOptions, WriteErrorKind};
use recorded::{Recorded, recorded};
use support::{Random, check, fill, wait_until, wait_until_idle, with_each_io};
use tasks::{Counter, Executor, Work, block_on, poll_once};
use tempfile::TempDir;

const RECORD: usize = 600;

fn engine(io: IoBackend) -> Recorded {
    recorded(Engine::builder().memory(1 << 20).dirty_limit(64 << 10).io_backend(io))
}

fn new_file(engine: &Engine, dir: &TempDir, io: IoBackend) -> File {
    let path = dir.path().join(format!("{io:?}"));
    engine.open_with(path, &OpenOptions::new().write(true).create(true)).unwrap()
}

/// Record number `number` of a log.
fn record(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; RECORD];
    fill(number, 0, &mut bytes);
    bytes[..8].copy_from_slice(&(number + 1).to_le_bytes());
    bytes
}

/// The numbers of the records of a log, and where they are; of those that are all zeros none.
fn records(file: &File) -> HashMap<u64, u64> {
    let mut log = vec![0; usize::try_from(file.len()).unwrap()];
    file.read_exact_at(&mut log, 0).unwrap();
    let mut found = HashMap::new();
    for (bytes, at) in log.chunks(RECORD).zip((0..).step_by(RECORD)) {
        let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        if number == 0 {
            assert!(bytes.iter().all(|&byte| byte == 0), "part of a record at {at}");
        } else {
            assert!(bytes == record(number - 1), "record {number} at {at} is torn");
            assert!(found.insert(number - 1, at).is_none(), "record {number} is there twice");
        }
    }
    found
}

#[test]
fn appends_of_many_tasks_and_threads_follow_one_another() {
    const TASKS: u64 = 30;
    const EACH: u64 = 20;

    let dir = TempDir::new().unwrap();
    with_each_io("appends_of_many_tasks_and_threads", |io| {
        let engine = engine(io);
        let file = new_file(&engine, &dir, io);
        let offsets = Arc::new(Mutex::new(HashMap::new()));
        let work = |task: u64| -> Work {
            let (file, offsets) = (file.clone(), Arc::clone(&offsets));
            Box::pin(async move {
                for number in task * EACH..(task + 1) * EACH {
                    let offset = if number % 2 == 0 {
                        file.append_async(&record(number)).await.unwrap()
                    } else {
                        let (bytes, offset) = file.append_from(record(number)).await;
                        assert!(bytes == record(number));
                        offset.unwrap()
                    };
                    offsets.lock().unwrap().insert(number, offset);
                    if number % 16 == 0 {
                        file.sync_data_async().await.unwrap();
                    }
                }
            })
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in TASKS * EACH..(TASKS + 1) * EACH {
                    let offset = file.append(&record(number)).unwrap();
                    offsets.lock().unwrap().insert(number, offset);
                }
            });
            Executor::run((0..TASKS).map(work).collect(), 2);
        });
        assert_eq!(file.len(), (TASKS + 1) * EACH * RECORD as u64);
        assert_eq!(records(&file), *offsets.lock().unwrap());
        block_on(file.sync_all_async()).unwrap();
        let disk = std::fs::metadata(dir.path().join(format!("{io:?}"))).unwrap();
        assert_eq!(disk.len(), file.len());
        wait_until_idle(&engine);
    });
}

#[test]
fn a_dropped_append_of_one_piece_is_a_whole_record_or_never() {
    let dir = TempDir::new().unwrap();
    with_each_io("a_dropped_append", |io| {
        let engine = engine(io);
        let file = new_file(&engine, &dir, io);
        let (mut random, mut acknowledged) = (Random(4), HashMap::new());
        let mut lent: Vec<_> = (0..8).map(|_| Vec::new()).collect();
        for round in 0..150 {
            let numbers = round * 8..(round + 1) * 8;
            for (bytes, number) in lent.iter_mut().zip(numbers.clone()) {
                *bytes = record(number);
            }
            for (bytes, number) in lent.iter().zip(numbers) {
                let polls = random.below(4);
                let mut append = file.append_async(bytes);
                let mut owned = file.append_from(record(number));
                for _ in 0..polls {
                    let polled = if number % 2 == 0 {
                        poll_once(&mut append, &Arc::default())
                    } else {
                        poll_once(&mut owned, &Arc::default()).map(|(_, offset)| offset)
                    };
                    if let Poll::Ready(offset) = polled {
                        acknowledged.insert(number, offset.unwrap());
                        break;
                    }
                    std::thread::yield_now();
                }
                if number % 100 == 0 && polls == 0 {
                    acknowledged.insert(number, block_on(append).unwrap());
                }
            }
        }
        // Behind all that was begun.
        let last = block_on(file.append_async(&record(1 << 20))).unwrap();
        assert_eq!(file.len(), last + RECORD as u64);
        let found = records(&file);
        for (number, offset) in acknowledged {
            assert_eq!(found.get(&number), Some(&offset), "record {number}");
        }
        wait_until_idle(&engine);
    });
}

/// A file kept the length of an append whose future was dropped, with zeros for the bytes that were
/// not written.
#[test]
fn a_dropped_append_in_pieces_is_cut_back_to_what_was_written() {
    /// Polls as often as that, each time when it was woken.
    fn poll_times<F: Future + Unpin>(mut future: F, polls: usize) {
        let wakes = Arc::default();
        for _ in 0..polls {
            let before = Counter::count(&wakes);
            if poll_once(&mut future, &wakes).is_ready() {
                return;
            }
            wait_until(|| wakes.count() > before);
        }
        if polls.is_multiple_of(3) {
            _ = poll_once(&mut future, &wakes);
        }
    }

    let dir = TempDir::new().unwrap();
    with_each_io("a_dropped_append_in_pieces", |io| {
        let engine = engine(io);
        let file = new_file(&engine, &dir, io);
        let (ones, twos) = (vec![1; 600_000], vec![2; 1000]);
        for polls in 0..16 {
            for is_owned in [false, true] {
                let before = file.len();
                if is_owned {
                    poll_times(file.append_from(ones.clone()), polls);
                } else {
                    poll_times(file.append_async(&ones), polls);
                }
                let at = block_on(file.append_async(&twos)).unwrap();
                assert_eq!(file.len(), at + 1000);
                let mut got = vec![0; usize::try_from(file.len() - before).unwrap()];
                file.read_exact_at(&mut got, before).unwrap();
                let (dropped, whole) = got.split_at(got.len() - 1000);
                assert!(dropped.len() <= ones.len() && dropped == &ones[..dropped.len()]);
                assert!(whole == twos, "after {polls} polls");
            }
        }
        file.sync_data().unwrap();
        wait_until_idle(&engine);
    });
}

/// A blocking append behind a future that its own thread does not poll waits for ever; with a
/// time-out it says so, and leaves the line of appends.
#[test]
fn an_append_behind_a_future_that_is_not_polled_times_out() {
    let dir = TempDir::new().unwrap();
    with_each_io("an_append_behind_a_future", |io| {
        let builder = Engine::builder().memory(1 << 20).io_backend(io);
        let engine = recorded(builder.timeout(Duration::from_millis(50)));
        let file = new_file(&engine, &dir, io);
        let ones = vec![1; 600_000];
        let mut begun = file.append_async(&ones);
        assert!(poll_once(&mut begun, &Arc::default()).is_pending());
        let error = file.append(&[2; 10]).unwrap_err();
        assert!(matches!(error.kind, WriteErrorKind::TimedOut { .. }), "{error}");
        assert_eq!(block_on(begun).unwrap(), 0);
        assert_eq!(block_on(file.append_async(&[3; 10])).unwrap(), 600_000);
        block_on(file.sync_data_async()).unwrap();
        wait_until_idle(&engine);
    });
}

#[test]
fn a_file_grows_by_writes_past_its_end_and_has_the_length_that_is_set() {
    let dir = TempDir::new().unwrap();
    with_each_io("a_file_grows_by_writes_past_its_end", |io| {
        let engine = engine(io);
        let file = new_file(&engine, &dir, io);
        let mut bytes = vec![0; 300_000];
        fill(3, 100_000, &mut bytes);
        block_on(file.write_all_at_async(&bytes, 100_000)).unwrap();
        assert_eq!(file.len(), 400_000);
        let (bytes, written) = block_on(file.write_from(bytes, 500_000));
        assert_eq!((written.unwrap(), file.len()), (300_000, 800_000));
        block_on(file.set_len_async(250_000)).unwrap();
        block_on(file.set_len_async(600_000)).unwrap();
        let mut all = vec![1; 600_000];
        assert_eq!(block_on(file.read_at_async(&mut all, 0)).unwrap(), 600_000);
        assert!(all[..100_000].iter().all(|&byte| byte == 0), "skipped");
        check(3, 100_000, &all[100_000..250_000]);
        assert!(all[250_000..].iter().all(|&byte| byte == 0), "cut off, and grown again");
        assert!(bytes != all[..300_000]);
        block_on(file.sync_data_async()).unwrap();
        let error = block_on(file.set_len_async(u64::MAX)).unwrap_err();
        assert!(matches!(error.kind, WriteErrorKind::Length { .. }), "{error}");
        assert_eq!(file.len(), 600_000);
        let reader = engine.open(dir.path().join(format!("{io:?}"))).unwrap();
        let error = block_on(reader.append_async(&[1])).unwrap_err();
        assert!(matches!(error.kind, WriteErrorKind::ReadOnly), "{error}");
        drop((reader, file));
        wait_until_idle(&engine);
    });
}

/// Its later pieces once went over the bytes of another append, in a file that was cut and had
/// become longer again.
#[test]
fn an_append_in_pieces_beside_a_cut_comes_before_it_as_a_whole() {
    /// Polls `first` until `second` has ended; what `first` came to, if it has ended, too.
    fn beside<A, B>(first: &mut A, ended: &mut Option<A::Output>, mut second: B) -> B::Output
    where
        A: Future + Unpin,
        B: Future + Unpin,
    {
        block_on(poll_fn(|context| {
            if ended.is_none()
                && let Poll::Ready(value) = Pin::new(&mut *first).poll(context)
            {
                *ended = Some(value);
            }
            Pin::new(&mut second).poll(context)
        }))
    }

    let dir = TempDir::new().unwrap();
    with_each_io("an_append_in_pieces_beside_a_cut", |io| {
        let engine = engine(io);
        let file = new_file(&engine, &dir, io);
        // More than may be dirty: it waits for the device between two pieces.
        let ones = vec![1; 600_000];
        for round in 0..4 {
            file.set_len(0).unwrap();
            let at = if round % 2 == 0 {
                let (mut append, mut ended) = (file.append_async(&ones), None);
                wait_until(|| {
                    ended.is_some() || {
                        if let Poll::Ready(end) = poll_once(&mut append, &Arc::default()) {
                            ended = Some(end);
                        }
                        !file.is_empty()
                    }
                });
                beside(&mut append, &mut ended, file.set_len_async(100_000)).unwrap();
                let (_, at) = beside(&mut append, &mut ended, file.append_from(vec![2; 700_000]));
                let first = ended.unwrap_or_else(|| block_on(append));
                assert_eq!(first.unwrap(), 0);
                at.unwrap()
            } else {
                let (mut append, mut ended) = (file.append_from(ones.clone()), None);
                beside(
                    &mut append,
                    &mut ended,
                    poll_fn(|context| {
                        context.waker().wake_by_ref();
                        if file.is_empty() { Poll::Pending } else { Poll::Ready(()) }
                    }),
                );
                beside(&mut append, &mut ended, file.set_len_async(100_000)).unwrap();
                let at = file.append(&vec![2; 700_000]).unwrap();
                let (_, first) = ended.unwrap_or_else(|| block_on(append));
                assert_eq!(first.unwrap(), 0);
                at
            };
            assert_eq!((at, file.len()), (100_000, 800_000));
            let mut got = vec![0; 800_000];
            file.read_exact_at(&mut got, 0).unwrap();
            let wrong = (0..).zip(&got).find(|(at, byte)| **byte != 1 + u8::from(*at >= 100_000));
            assert_eq!(wrong, None, "round {round}");
        }
        wait_until_idle(&engine);
    });
}
