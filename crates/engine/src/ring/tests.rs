//! Tests that both kinds of ring have to pass.

mod writes;

use std::fs::File;
use std::io::Write;
use std::sync::{Barrier, Mutex};

use tempfile::TempDir;

use super::*;
use crate::OpenOptions;
use crate::backend::Claims;
use crate::faults::{Faults, Mishap};
use crate::pool::PAGE;

const PAGES: u32 = 64;

/// A file whose page n is filled with n, and a pool to read it into.
struct Bench {
    pool: Arc<Pool>,
    backend: Arc<Backend>,
    _dir: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self::with(&OpenOptions::default(), 0)
    }

    /// Creates a file with `tail` bytes after its last whole page.
    fn with(options: &OpenOptions, tail: usize) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        let mut file = File::create(&path).expect("a file");
        for page in 0..PAGES {
            file.write_all(&[u8::try_from(page).unwrap(); PAGE]).expect("space for it");
        }
        file.write_all(&vec![0xff; tail]).expect("space for it");
        let opened = Backend::open(&path, options, &Claims::default());
        let backend = Arc::new(opened.expect("it is there"));
        Self { pool: Arc::new(Pool::new(PAGES).expect("memory")), backend, _dir: dir }
    }

    /// Returns both kinds; only threads, with a note on stderr, where io_uring is forbidden.
    fn rings(&self, test: &str) -> Vec<Ring> {
        let choices = [IoBackend::Threads, IoBackend::IoUring];
        let rings = choices.map(|choice| Ring::with(Arc::clone(&self.pool), choice));
        for error in rings.iter().filter_map(|ring| ring.as_ref().err()) {
            eprintln!("SKIP half of {test}: {error}");
        }
        rings.into_iter().flatten().collect()
    }

    fn read(&self, ring: &mut Ring, tag: u64, page: u32, frames: &[u32]) {
        let parts = frames.iter().map(|frame| (Frame(*frame), 0..PAGE));
        ring.read(tag, Arc::clone(&self.backend), u64::from(page) * PAGE as u64, parts);
    }

    fn page_in(&self, frame: u32) -> Vec<u8> {
        let mut page = vec![0xff; PAGE];
        self.pool.copy_out(Frame(frame), 0, &mut page);
        page
    }
}

fn next(ring: &mut Ring) -> Completion {
    loop {
        if let Some(completion) = ring.completion() {
            return completion;
        }
        ring.sleeper().wait(None).expect("a ring that waits");
    }
}

#[test]
fn pages_come_to_the_frames_that_were_named_in_their_order() {
    let bench = Bench::new();
    for mut ring in bench.rings("pages_come") {
        bench.read(&mut ring, 7, 10, &[5, 6, 3, 20]);
        assert_eq!(ring.in_flight(), 1);
        assert_eq!(next(&mut ring), Completion { tag: 7, result: Ok(4 * 4096) });
        assert_eq!(ring.in_flight(), 0);
        for (page, frame) in (10..).zip([5, 6, 3, 20]) {
            assert_eq!(bench.page_in(frame), [page; PAGE], "{:?}", ring.kind());
        }
    }
}

#[test]
fn a_read_over_the_end_is_short_and_a_wrong_one_is_an_error_number() {
    let bench = Bench::new();
    for mut ring in bench.rings("a_read_over_the_end") {
        bench.read(&mut ring, 1, PAGES - 1, &[0, 1]);
        assert_eq!(next(&mut ring).result, Ok(4096));
        bench.read(&mut ring, 1, PAGES, &[0]);
        assert_eq!(next(&mut ring).result, Ok(0));
        ring.read(
            1,
            Arc::clone(&bench.backend),
            (1 << 63) + 4096,
            [(Frame(0), 0..PAGE)].into_iter(),
        );
        assert_eq!(next(&mut ring).result, Err(libc::EINVAL), "{:?}", ring.kind());
    }
    let lone_backend = || Arc::clone(&bench.backend);
    let lone = |page: u64| {
        pread(&bench.pool, lone_backend(), page << 12, &mut [(Frame(9), 0..PAGE)].into_iter())
    };
    assert_eq!(lone(3), Ok(4096));
    assert_eq!(bench.page_in(9), [3; PAGE]);
    assert_eq!(lone(u64::from(PAGES)), Ok(0));
    assert_eq!(lone(1 << 51), Err(libc::EINVAL));
}

#[test]
fn as_many_as_there_is_room_for_are_in_flight_and_a_wake_still_finds_its_place() {
    let bench = Bench::new();
    for mut ring in bench.rings("as_many") {
        let mut tag = 0;
        while ring.has_room() {
            bench.read(&mut ring, tag, 0, &[0]);
            tag += 1;
        }
        ring.wake();
        ring.wake();
        let mut seen: Vec<u64> = (0..tag).map(|_| next(&mut ring).tag).collect();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..254), "{:?}", ring.kind());
        assert_eq!(ring.completion(), None);
    }
}

/// The driver decides to sleep under its lock and sleeps without it: a wake may come in between.
#[test]
fn a_wake_before_the_sleep_ends_it_until_it_is_reaped() {
    let bench = Bench::new();
    for mut ring in bench.rings("a_wake_before") {
        ring.wake();
        let sleeper = ring.sleeper();
        sleeper.wait(None).expect("the wake lies there");
        sleeper.wait(None).expect("and still does");
        assert_eq!(ring.completion(), None, "a wake is not a result");
        sleeper.wait(Some(Duration::from_millis(1))).expect("the time ends, nothing else");
        ring.wake();
        sleeper.wait(None).expect("a second wake counts as the first did");
    }
}

#[test]
fn a_completion_that_is_not_reaped_ends_each_sleep_at_once() {
    let bench = Bench::new();
    for mut ring in bench.rings("a_completion_that_is_not_reaped") {
        bench.read(&mut ring, 1, 0, &[0]);
        let sleeper = ring.sleeper();
        sleeper.wait(None).expect("submits and waits");
        sleeper.wait(None).expect("has nothing to submit and need not wait");
        assert_eq!(ring.completion().map(|completion| completion.tag), Some(1));
    }
}

#[test]
fn a_thread_that_sleeps_is_woken_by_a_read_that_another_thread_starts() {
    let bench = Bench::new();
    for ring in bench.rings("a_thread_that_sleeps") {
        let sleeper = ring.sleeper();
        let ring = Mutex::new(ring);
        for round in 0..200 {
            let start = Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    sleeper.wait(None).expect("it ends");
                });
                start.wait();
                let mut ring = ring.lock().unwrap();
                if round % 2 == 0 {
                    bench.read(&mut ring, round, 1, &[0]);
                    ring.submit().expect("there is memory");
                } else {
                    ring.wake();
                }
            });
            let got = ring.lock().unwrap().completion();
            assert_eq!(got.map(|completion| completion.tag), (round % 2 == 0).then_some(round));
        }
    }
}

/// Two threads start reads while a third sleeps, reaps, and starts reads that only its sleep
/// submits: each read ends once, and none is lost between the thread that pushed it and the one
/// that entered the kernel with it.
#[test]
fn each_read_of_many_threads_ends_exactly_once() {
    const READS: u64 = 3000;
    let bench = Bench::new();
    for ring in bench.rings("each_read") {
        let sleeper = ring.sleeper();
        let ring = Mutex::new(ring);
        let mut seen = Vec::new();
        std::thread::scope(|scope| {
            for starter in 0..2 {
                let (bench, ring) = (&bench, &ring);
                scope.spawn(move || {
                    let mut started = 0;
                    while started < READS {
                        let mut ring = ring.lock().unwrap();
                        let batch = (started % 3 + 1).min(READS - started);
                        for _ in 0..batch {
                            if ring.has_room() {
                                let page = u32::try_from(started % 60).unwrap();
                                bench.read(&mut ring, started * 2 + starter, page, &[page]);
                                started += 1;
                            }
                        }
                        ring.submit().expect("there is memory");
                    }
                });
            }
            let mut own = 2 * READS..3 * READS;
            while seen.len() < 3 * usize::try_from(READS).unwrap() {
                let mut starting = ring.lock().unwrap();
                if starting.has_room()
                    && let Some(tag) = own.next()
                {
                    bench.read(&mut starting, tag, 63, &[63]);
                }
                drop(starting);
                sleeper.wait(None).expect("something ends");
                let mut ring = ring.lock().unwrap();
                while let Some(Completion { tag, result }) = ring.completion() {
                    assert_eq!(result, Ok(4096));
                    seen.push(tag);
                }
            }
        });
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..3 * READS), "{:?}", ring.lock().unwrap().kind());
    }
}

#[test]
fn a_ring_ends_with_reads_in_flight_and_its_sleeper_may_live_on() {
    let bench = Bench::new();
    for mut ring in bench.rings("a_ring_ends") {
        for tag in 0..100 {
            bench.read(&mut ring, tag, 0, &[0, 1, 2, 3]);
        }
        ring.submit().expect("there is memory");
        let sleeper = ring.sleeper();
        drop(ring);
        assert_eq!(Arc::strong_count(&bench.backend), 1, "no descriptor is left in {sleeper:?}");
    }
    assert_eq!(Arc::strong_count(&bench.pool), 1);
}

#[test]
fn a_ring_says_what_it_is() {
    let bench = Bench::new();
    let ring = Ring::with(Arc::clone(&bench.pool), IoBackend::Threads).unwrap();
    assert_eq!(ring.kind().to_string(), "threads (as asked)");
    if let Ok(ring) = Ring::with(Arc::clone(&bench.pool), IoBackend::IoUring) {
        assert_eq!(ring.kind().to_string(), "io_uring");
    }
}

/// Creates a bench whose file fails on request.
fn faulty() -> (Bench, Arc<Faults>) {
    let mut bench = Bench::new();
    let faults = Arc::new(Faults::default());
    let backend = Arc::get_mut(&mut bench.backend).expect("there is no other handle yet");
    backend.faults = Some(Arc::clone(&faults));
    (bench, faults)
}

#[test]
fn faults_strike_alike_in_every_kind_of_read() {
    let (bench, faults) = faulty();
    let mut rings: Vec<Option<Ring>> = bench.rings("faults").into_iter().map(Some).collect();
    rings.push(None);
    for mut ring in rings {
        let mut read = |page: u32| match &mut ring {
            Some(ring) => {
                bench.read(ring, 1, page, &[0, 1]);
                next(ring).result
            }
            None => {
                let parts = &mut [(Frame(0), 0..PAGE), (Frame(1), 0..PAGE)].into_iter();
                pread(&bench.pool, Arc::clone(&bench.backend), u64::from(page) << 12, parts)
            }
        };
        faults.clear();
        faults.inject(7..8, 1..2, Mishap::Errno(libc::EIO));
        faults.inject(20..21, 0..1, Mishap::Short(5000));
        faults.inject(30..31, 0..16, Mishap::Errno(libc::EAGAIN));
        faults.inject(40..41, 0..17, Mishap::Errno(libc::EAGAIN));
        faults.inject(50..51, 0..1, Mishap::Errno(libc::ENOMEM));

        assert_eq!(read(6), Ok(8192), "the 0th time");
        assert_eq!(read(7), Err(libc::EIO));
        assert_eq!(bench.page_in(1), [0xe5; PAGE], "what did not come is not there");
        assert_eq!(read(7), Ok(8192));
        assert_eq!(bench.page_in(1), [8; PAGE]);
        assert_eq!(read(20), Ok(3192));
        assert_eq!(bench.page_in(0)[..3192], [20; 3192]);
        assert_eq!(bench.page_in(0)[3192..], [0xe5; 904]);
        assert_eq!(read(30), Ok(8192), "sixteen times again is not an error");
        assert_eq!(read(40), Err(libc::EAGAIN), "seventeen is");
        assert_eq!(read(50), Err(libc::ENOMEM));
    }
}

/// The reaping thread may be leaving, and the waiter may be asleep: neither submits the retry.
#[test]
fn a_read_that_is_tried_again_starts_by_itself() {
    let (bench, faults) = faulty();
    for mut ring in bench.rings("a_read_that_is_tried_again") {
        faults.clear();
        faults.inject(3..4, 0..5, Mishap::Errno(libc::EAGAIN));
        bench.read(&mut ring, 1, 3, &[3]);
        ring.submit().expect("there is memory");
        let got = std::iter::repeat_with(|| ring.completion()).find_map(|got| {
            std::thread::yield_now();
            got
        });
        assert_eq!(got, Some(Completion { tag: 1, result: Ok(4096) }));
    }
}

#[test]
fn a_held_read_ends_after_it_is_let_go_and_others_pass_it() {
    let (bench, faults) = faulty();
    let mut held = 0;
    for mut ring in bench.rings("a_held_read") {
        faults.clear();
        faults.inject(3..4, 0..1, Mishap::Hold);
        bench.read(&mut ring, 1, 3, &[3]);
        bench.read(&mut ring, 2, 4, &[4]);
        ring.submit().expect("there is memory");
        held += 1;
        faults.wait_held(held);
        assert_eq!(next(&mut ring).tag, 2);
        ring.sleeper().wait(Some(Duration::from_millis(1))).expect("the time ends, not the read");
        assert_eq!((ring.completion(), ring.in_flight()), (None, 1));
        faults.let_go();
        assert_eq!(next(&mut ring), Completion { tag: 1, result: Ok(4096) });
        assert_eq!(bench.page_in(3), [3; PAGE], "{:?}", ring.kind());
    }
}

/// The kernel cancels the waits of a thread when the thread ends.
#[test]
fn a_held_read_survives_the_thread_that_started_it() {
    let (bench, faults) = faulty();
    for ring in bench.rings("a_held_read_survives") {
        faults.clear();
        faults.inject(3..4, 0..1, Mishap::Hold);
        let ring = Mutex::new(ring);
        std::thread::scope(|scope| {
            let start = || {
                let mut ring = ring.lock().unwrap();
                bench.read(&mut ring, 1, 3, &[3]);
                ring.submit().expect("there is memory");
            };
            scope.spawn(start).join().expect("it starts");
        });
        let mut ring = ring.into_inner().unwrap();
        ring.sleeper().wait(Some(Duration::from_millis(1))).expect("the time ends, not the read");
        assert_eq!(ring.completion(), None);
        faults.let_go();
        assert_eq!(next(&mut ring), Completion { tag: 1, result: Ok(4096) });
    }
}

#[test]
fn a_ring_that_ends_lets_its_held_reads_go() {
    let (bench, faults) = faulty();
    faults.inject(0..9, 0..u32::MAX, Mishap::Hold);
    for mut ring in bench.rings("a_ring_that_ends") {
        for tag in 0..40 {
            bench.read(&mut ring, tag, 1, &[0]);
        }
        ring.submit().expect("there is memory");
        drop(ring);
        assert_eq!(Arc::strong_count(&bench.backend), 1);
    }
}
