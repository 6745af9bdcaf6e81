//! What a program says about its reads: ranges that it will need, and how it is going to read.

#![allow(clippy::cast_possible_truncation, reason = "offsets are drawn from words")]
#![allow(clippy::single_range_in_vec_init, reason = "a hint of one range is what it looks like")]

use crate::recorded;
use crate::support;

use foreread::testing::Mishap;
use foreread::{Advice, Engine, File, IoBackend, OpenOptions, Policy};
use recorded::{Recorded, recorded};
use support::{
    PAGE, Random, check, open_faulty, read_and_check, wait_until, wait_until_idle, with_each_io,
    write_file,
};
use tempfile::TempDir;

/// 769 pages, the last of which is short.
const LEN: u64 = (3 << 20) + 777;

fn engine(io: IoBackend, memory: u64) -> Recorded {
    recorded(Engine::builder().memory(memory).io_backend(io))
}

/// What the device is asked for while `act` acts, in pages.
fn asked(engine: &Engine, act: impl FnOnce()) -> u64 {
    let before = engine.counters().unwrap().path.device_pages;
    act();
    wait_until_idle(engine);
    engine.counters().unwrap().path.device_pages - before
}

#[test]
fn hinted_pages_are_requested_once_and_then_hit() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("what_will_be_needed_is_asked_for_once", |io| {
        let engine = engine(io, 8 << 20);
        let file = engine.open(&path).unwrap();
        // Pages 10 to 29, of which 20 comes twice, and the last two.
        let ranges = [10 * PAGE..20 * PAGE + 1, 20 * PAGE..30 * PAGE, LEN - 778..LEN];
        let pages = asked(&engine, || assert_eq!(file.will_need(ranges.clone()).unwrap(), 22));
        assert_eq!(pages, 22, "and nothing around them");
        assert_eq!(file.will_need(ranges).unwrap(), 0, "they are there");

        let (hits, misses) =
            (engine.counters().unwrap().hits, engine.counters().unwrap().path.reads);
        for page in 10..30 {
            read_and_check(&file, 1, &mut [0; 4096], page * PAGE);
        }
        read_and_check(&file, 1, &mut [0; 778], LEN - 778);
        let after = engine.counters().unwrap();
        assert_eq!((after.hits - hits, after.path.reads - misses), (21, 0));
    });
}

/// A reader of a page that a hint has asked for waits for that request, and starts no other.
#[test]
fn a_read_joins_a_hint_that_is_on_its_way() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_read_joins_a_hint_that_is_on_its_way", |io| {
        let engine = engine(io, 8 << 20);
        let (file, faults) = open_faulty(&engine, &path);
        file.advise(Advice::Random);
        faults.inject(100..120, 0..u32::MAX, Mishap::Hold);
        assert_eq!(file.will_need([100 * PAGE..120 * PAGE]).unwrap(), 20);
        faults.wait_held(1);
        assert_eq!(file.will_need([100 * PAGE..120 * PAGE]).unwrap(), 0, "it is on its way");
        let before = engine.counters().unwrap().path.pages_joined;
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let file = &file;
                scope.spawn(move || read_and_check(file, 1, &mut [0; 9000], (105 + thread) * PAGE));
            }
            wait_until(|| engine.counters().unwrap().path.pages_joined - before == 9);
            faults.clear();
            faults.let_go();
        });
        wait_until_idle(&engine);
        assert_eq!(engine.counters().unwrap().path.device_pages, 20);
    });
}

#[test]
fn a_hint_without_a_reader_comes_to_an_end_by_itself() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_hint_without_a_reader", |io| {
        let engine = engine(io, 8 << 20);
        let file = engine.open(&path).unwrap();
        // Many small ranges: more requests than a device takes at a time.
        let ranges = (0..200).map(|i| i * 3 * PAGE..(i * 3 + 1) * PAGE);
        assert_eq!(file.will_need(ranges).unwrap(), 200);
        wait_until(|| engine.counters().unwrap().path.device_pages == 200);
        drop((file, engine));
    });
}

#[test]
fn ranges_that_name_nothing_or_too_much_ask_for_what_there_is() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    let empty = write_file(dir.path(), 2, 0);
    with_each_io("ranges_that_name_nothing_or_too_much", |io| {
        let engine = engine(io, 16 << 20);
        let file = engine.open(&path).unwrap();
        assert_eq!(file.will_need([]).unwrap(), 0);
        assert_eq!(file.will_need([5..5, LEN..LEN, LEN + 5000..LEN + 9000]).unwrap(), 0);
        assert_eq!(file.will_need([u64::MAX - 1..u64::MAX]).unwrap(), 0);
        #[expect(clippy::reversed_empty_ranges, reason = "what a caller may say by mistake")]
        let reversed = 9000..5;
        assert_eq!(file.will_need([reversed]).unwrap(), 0);
        assert_eq!(file.will_need([0..u64::MAX]).unwrap(), LEN.div_ceil(PAGE), "all of it");
        assert_eq!(engine.open(&empty).unwrap().will_need([0..u64::MAX]).unwrap(), 0);
        wait_until_idle(&engine);
    });
}

/// Hints beyond half of the memory are left out: readers that wait for pages have the rest.
#[test]
fn more_hints_than_memory_hold_no_reader_up() {
    let dir = TempDir::new().unwrap();
    let paths = [write_file(dir.path(), 1, LEN), write_file(dir.path(), 2, LEN)];
    with_each_io("more_hints_than_memory_hold_no_reader_up", |io| {
        let engine = engine(io, 1 << 20);
        let (_, frames) = engine.frames().unwrap();
        let (hinted, faults) = open_faulty(&engine, &paths[0]);
        let read = engine.open(&paths[1]).unwrap();
        faults.inject(0..1000, 0..u32::MAX, Mishap::Hold);
        let asked = hinted.will_need([0..LEN]).unwrap();
        assert!(asked > 0 && asked <= frames / 2, "{asked} of {frames}");
        faults.wait_held(1);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let read = &read;
                scope.spawn(move || {
                    let mut random = Random(thread << 32);
                    for _ in 0..100 {
                        read_and_check(read, 2, &mut [0; 9000], random.below(LEN));
                    }
                });
            }
        });
        faults.clear();
        faults.let_go();
        wait_until_idle(&engine);
        assert!((0..LEN).step_by(50_000).all(|at| read_and_check(&hinted, 1, &mut [0; 9], at) > 0));
    });
}

#[test]
fn a_hint_that_fails_is_an_error_of_no_reader() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_hint_that_fails_is_an_error_of_no_reader", |io| {
        let engine = engine(io, 8 << 20);
        let (file, faults) = open_faulty(&engine, &path);
        faults.inject(0..1000, 0..u32::MAX, Mishap::Errno(libc::EIO));
        assert_eq!(file.will_need([0..100 * PAGE]).unwrap(), 100);
        wait_until_idle(&engine);
        assert_eq!(engine.counters().unwrap().path.pages_failed, 0);
        faults.clear();
        for page in 0..100 {
            read_and_check(&file, 1, &mut [0; 4096], page * PAGE);
        }
    });
}

/// Reads one page in every ten, in order, and says what the device was asked for.
fn pages_for_a_stride(engine: &Engine, file: &File, advice: Advice) -> u64 {
    let stream = file.stream();
    stream.advise(advice);
    let mut buffer = [0; 4096];
    asked(engine, || {
        for page in (0..700).step_by(10) {
            stream.read_at(&mut buffer, page * PAGE).unwrap();
            check(1, page * PAGE, &buffer);
        }
    })
}

#[test]
fn a_reader_at_random_gets_what_it_asked_for_and_no_more() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("a_reader_at_random", |io| {
        for policy in Policy::ALL {
            let builder = Engine::builder().memory(8 << 20).policy(policy).io_backend(io);
            let engine = recorded(builder);
            let file = engine.open(&path).unwrap();
            assert_eq!(pages_for_a_stride(&engine, &file, Advice::Random), 70, "{policy:?}");
            let mut buffer = [0; 40_000];
            file.advise(Advice::Random);
            let pages = asked(&engine, || {
                for page in (705..760).step_by(11) {
                    read_and_check(&file, 1, &mut buffer, page * PAGE);
                }
            });
            assert_eq!(pages, 50, "{policy:?}: ten pages each time");
        }
    });
}

/// The handle's advice is for all threads; a stream has its own once it was made.
#[test]
fn advice_of_a_handle_reaches_threads_and_new_streams_and_no_other_handle() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("advice_of_a_handle", |io| {
        let engine = engine(io, 8 << 20);
        let (random, plain) = (engine.open(&path).unwrap(), engine.open(&path).unwrap());
        let before = random.stream();
        random.advise(Advice::Random);
        let after = random.stream();
        let page = |read: &dyn Fn(&mut [u8], u64), page: u64| {
            plain.invalidate(0..LEN).unwrap();
            asked(&engine, || {
                let mut buffer = [0; 4096];
                read(&mut buffer, page * PAGE);
                check(1, page * PAGE, &buffer);
            })
        };
        // At the start of a file every stream reads ahead, unless told not to.
        let of_thread = |to: &mut [u8], at| {
            std::thread::scope(|scope| {
                scope.spawn(|| random.read_at(to, at).unwrap());
            });
        };
        assert_eq!(page(&of_thread, 0), 1);
        assert_eq!(page(&|to, at| assert_eq!(after.read_at(to, at).unwrap(), to.len()), 0), 1);
        assert!(page(&|to, at| assert_eq!(before.read_at(to, at).unwrap(), to.len()), 0) > 1);
        assert!(page(&|to, at| assert_eq!(plain.read_at(to, at).unwrap(), to.len()), 0) > 1);
        random.advise(Advice::Normal);
        assert!(page(&|to, at| assert_eq!(random.read_at(to, at).unwrap(), to.len()), 0) > 1);
    });
}

/// A scan that uses each page once leaves those alone that others use often.
#[test]
fn pages_that_are_used_once_do_not_drive_out_those_that_are_used_often() {
    let dir = TempDir::new().unwrap();
    let paths = [write_file(dir.path(), 1, LEN), write_file(dir.path(), 2, LEN)];
    with_each_io("pages_that_are_used_once", |io| {
        let engine = engine(io, 1 << 20);
        let (often, scanned) = (engine.open(&paths[0]).unwrap(), engine.open(&paths[1]).unwrap());
        often.advise(Advice::Random);
        let use_often = || {
            for page in 0..20 {
                read_and_check(&often, 1, &mut [0; 4096], page * PAGE);
            }
        };
        (0..3).for_each(|_| use_often());
        let scan = scanned.stream();
        scan.advise(Advice::NoReuse);
        let mut buffer = [0; 4096];
        for _ in 0..3 {
            for offset in (0..LEN - PAGE).step_by(1000) {
                scan.read_at(&mut buffer, offset).unwrap();
                if offset % 50_000 == 0 {
                    use_often();
                }
            }
        }
        assert_eq!(asked(&engine, use_often), 0, "they are still there");
    });
}

/// What the background thread queued last, after it had slept last, once stayed queued until the
/// next call.
#[test]
fn all_of_a_hint_is_read_without_another_call() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, 40 << 20);
    with_each_io("all_of_a_hint_is_read_without_another_call", |io| {
        let kernels = std::fs::File::open(&path).unwrap();
        rustix::fs::fadvise(&kernels, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let Ok(cached) = foreread::cached_pages(&kernels) else { return };
        if cached > 0 {
            eprintln!("SKIP all_of_a_hint_is_read_without_another_call: a file system in memory");
            return;
        }
        let engine = Engine::builder().memory(128 << 20).io_backend(io).build().unwrap();
        let options = OpenOptions::new().buffered(true);
        let file = engine.open_with(&path, &options).unwrap();
        // More requests than a device takes at a time.
        let ranges = (0..80).map(|number| number << 19..(number << 19) + (128 << 10));
        assert_eq!(file.will_need(ranges).unwrap(), 80 * 32);
        // Seen by the kernel: a call of the engine would drive. It may drop a few of them again,
        // but not as many as one request has.
        wait_until(|| foreread::cached_pages(&kernels).unwrap() > 79 * 32);
    });
}

/// A page that was missing was once used twice by the pin that brought it: a scan by pins drove out
/// what others use again and again.
#[test]
fn a_pin_that_misses_is_one_use_of_its_page_and_no_hit() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    let engine = Engine::builder().memory(1 << 20).policy(Policy::None).build().unwrap();
    let stream = engine.open(&path).unwrap().stream();
    for page in 0..700 {
        check(1, page * PAGE, &stream.pin(page * PAGE).unwrap());
    }
    let counters = engine.counters().unwrap();
    assert_eq!((counters.hits, counters.path.reads), (0, 700));
    assert_eq!(counters.cache.activations, 0, "no page was used twice");
}

/// Streams that had pinned once kept sixteen pins each: with nothing pinned, the fifth of them was
/// told that a quarter of the memory was.
#[test]
fn streams_that_have_nothing_pinned_leave_pins_to_others() {
    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 1, LEN);
    let engine = Engine::builder().memory(1 << 20).build().unwrap();
    let file = engine.open(&path).unwrap();
    let streams: Vec<_> = (0..50).map(|_| file.stream()).collect();
    for stream in &streams {
        let two = [0, PAGE].map(|offset| stream.pin(offset).unwrap());
        two.iter().zip([0, PAGE]).for_each(|(pin, offset)| check(1, offset, pin));
    }
    // Each is left with one, and those may all be used at a time.
    let pins: Vec<_> = streams.iter().map(|stream| stream.pin(0).unwrap()).collect();
    assert_eq!(pins.len(), 50);
}
