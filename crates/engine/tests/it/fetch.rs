//! Several reads of one stream on their way at once, and tries that are hits or nothing.
//!
//! In:    files whose every byte is known, engines of both kinds.
//! Out:   the bytes, in whatever order they come.
//! Never: a frame that is left behind.

use crate::common;
use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use foreread::Submitter;
use foreread::{File, OwnedRead, ReadStream};
use support::{Random, check, read_and_check, wait_until_idle, with_each_io, write_file};

const LEN: u64 = (2 << 20) + 777;

/// Unparks the thread that waits, and counts.
struct Unpark(Thread, AtomicUsize);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::AcqRel);
        self.0.unpark();
    }
}

fn waker() -> Waker {
    Waker::from(Arc::new(Unpark(std::thread::current(), AtomicUsize::new(0))))
}

/// Polls until it is ready; returns the buffer, cut to what was read.
fn finish(stream: &ReadStream, mut fetch: OwnedRead, waker: &Waker) -> Vec<u8> {
    loop {
        match fetch.poll(stream, &Context::from_waker(waker)) {
            Poll::Ready(bytes) => {
                let bytes = bytes.expect("the device is well");
                let mut buffer = fetch.into_buffer();
                buffer.truncate(bytes);
                return buffer;
            }
            Poll::Pending => std::thread::park(),
        }
    }
}

fn len(random: &mut Random) -> usize {
    usize::try_from(1 + random.below(70_000)).expect("small")
}

#[test]
fn reads_of_one_stream_come_in_any_order_and_each_has_its_bytes() {
    with_each_io("reads_of_one_stream_come_in_any_order", |io| {
        let builder = foreread::Engine::builder().io_backend(io);
        let dir = tempfile::tempdir_in(common::scratch()).expect("a directory");
        let path = write_file(dir.path(), 1, LEN);
        let engine = builder.memory(4 << 20).build().expect("an engine");
        let stream = engine.open(&path).expect("it is there").stream();
        let (waker, mut random) = (waker(), Random(3));
        for _ in 0..20 {
            let mut fetches = Vec::new();
            for _ in 0..16 {
                let offset = random.below(LEN);
                let mut fetch = stream.read_owned(vec![0; len(&mut random)], offset);
                match fetch.poll(&stream, &Context::from_waker(&waker)) {
                    Poll::Ready(bytes) => {
                        let bytes = bytes.expect("the device is well");
                        check(1, offset, &fetch.into_buffer()[..bytes]);
                    }
                    Poll::Pending => fetches.push((offset, fetch)),
                }
            }
            // The last that began is awaited first; some are given up.
            while let Some((offset, fetch)) = fetches.pop() {
                if random.below(4) == 0 {
                    drop(fetch);
                } else {
                    check(1, offset, &finish(&stream, fetch, &waker));
                }
            }
            engine.open(&path).expect("it is there").invalidate(0..LEN).unwrap();
        }
        drop(stream);
        wait_until_idle(&engine);
    });
}

/// If each ended where it stood when it was done, read-ahead would see a reader that jumps.
/// A read whose pages are all missing is copied before the driver is told of its end; where it has
/// some of its pages, meets another reader, or reaches the end of the file, after.
#[test]
fn a_miss_that_its_thread_reads_itself_has_its_bytes_and_leaves_no_frame() {
    with_each_io("a_miss_that_its_thread_reads_itself", |io| {
        let dir = tempfile::tempdir_in(common::scratch()).expect("a directory");
        let path = write_file(dir.path(), 1, LEN);
        let engine = foreread::Engine::builder().io_backend(io).memory(1 << 20).build();
        let engine = engine.expect("an engine");
        let file = engine.open(&path).expect("it is there");
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let file = &file;
                scope.spawn(move || {
                    // Half of the places are those of the other reader, too.
                    let (mut own, mut both) = (Random(reader << 20), Random(7 << 20));
                    let mut buffer = vec![0; 6 * 4096];
                    for read in 0..400 {
                        let random = if read % 2 == 0 { &mut own } else { &mut both };
                        let offset = random.below(LEN);
                        let len = usize::try_from(1 + random.below(6 * 4096)).expect("small");
                        let wanted = len.min(usize::try_from(LEN - offset).expect("small"));
                        let got = read_and_check(file, 1, &mut buffer[..len], offset);
                        assert_eq!(got, wanted, "{len} bytes at {offset}");
                    }
                });
            }
        });
        let inline = engine.counters().expect("this process").inline_reads;
        assert!(inline > 0, "some misses were all there was to read");
        wait_until_idle(&engine);
    });
}

#[test]
fn a_sequence_of_which_several_are_on_their_way_is_read_ahead() {
    with_each_io("a_sequence_of_which_several_are_on_their_way", |io| {
        let builder = foreread::Engine::builder().io_backend(io);
        let dir = tempfile::tempdir_in(common::scratch()).expect("a directory");
        let path = write_file(dir.path(), 1, LEN);
        let engine = builder.memory(4 << 20).max_window(128 << 10).build().expect("an engine");
        let stream = engine.open(&path).expect("it is there").stream();
        let waker = waker();
        let mut on_their_way = std::collections::VecDeque::new();
        for offset in (0..LEN - 4096).step_by(4096) {
            on_their_way.push_back((offset, stream.read_owned(vec![0; 4096], offset)));
            if let Some((_, fetch)) = on_their_way.back_mut()
                && fetch.poll(&stream, &Context::from_waker(&waker)).is_ready()
            {
                let (offset, fetch) = on_their_way.pop_back().expect("the one that was polled");
                check(1, offset, &fetch.into_buffer());
            }
            if on_their_way.len() == 4 {
                let (offset, fetch) = on_their_way.pop_front().expect("four");
                check(1, offset, &finish(&stream, fetch, &waker));
            }
        }
        drop(on_their_way);
        let requests = engine.counters().unwrap().path.device_reads;
        assert!(requests < LEN / 4096 / 4, "{requests} requests: nothing was read ahead");
    });
}

fn opened(memory: u64) -> (tempfile::TempDir, foreread::Engine, File) {
    let dir = tempfile::tempdir_in(common::scratch()).expect("a directory");
    let path = write_file(dir.path(), 1, LEN);
    let engine = foreread::Engine::builder().memory(memory).build().expect("an engine");
    let file = engine.open(&path).expect("it is there");
    (dir, engine, file)
}

#[test]
fn a_try_is_all_of_a_read_or_none_of_it() {
    let (_dir, engine, file) = opened(8 << 20);
    let stream = file.stream();
    stream.set_submitter(Submitter(7)).unwrap();
    let mut buffer = vec![0; 20_000];
    assert!(!stream.try_read_at(&mut buffer, 5000), "nothing is there");
    assert!(stream.try_pin(5000).is_none());
    assert_eq!(engine.counters().unwrap().path.device_reads, 0, "and the device was not asked");

    assert_eq!(stream.read_at(&mut buffer, 5000).expect("it is there"), 20_000);
    buffer.fill(0);
    assert!(stream.try_read_at(&mut buffer, 5000));
    check(1, 5000, &buffer);
    let mut pins = Vec::new();
    assert!(stream.try_pin_all(5000, 20_000, &mut pins));
    let bytes: Vec<u8> = pins.iter().flat_map(|pin| pin.iter().copied()).collect();
    check(1, 5000, &bytes);
    assert_eq!(bytes.len(), 20_000);
    let pin = stream.try_pin(4097).expect("it is there");
    check(1, 4097, &pin);
    drop(pin);

    assert!(!stream.try_read_at(&mut buffer, LEN - 10), "the file has ten bytes there");
    assert!(!stream.try_pin_all(LEN - 10, 11, &mut pins));
    assert!(stream.try_pin(LEN).is_none());
    // One page is missing in the middle.
    file.invalidate(8192..8193).unwrap();
    let before = pins.len();
    assert!(!stream.try_pin_all(5000, 20_000, &mut pins));
    assert_eq!(pins.len(), before);
    drop(pins);
    drop(stream);
    wait_until_idle(&engine);
}

#[test]
fn pins_end_at_a_quarter_of_the_memory_and_none_is_left_of_those_that_did_not_fit() {
    let (_dir, engine, file) = opened(4 << 20);
    let stream = file.stream();
    let mut all = vec![0; usize::try_from(LEN).expect("small")];
    stream.read_at(&mut all, 0).expect("it is there");
    let (mut pins, mut pinned) = (Vec::new(), 0);
    for offset in (0..LEN - 262_144).step_by(262_144) {
        let before = pins.len();
        if stream.try_pin_all(offset, 262_144, &mut pins) {
            pinned += 262_144;
        } else {
            assert_eq!(pins.len(), before);
        }
    }
    assert!(pinned > 0);
    assert!(pinned <= 1 << 20, "{pinned} bytes of a quarter of 4 MiB");
    drop(pins);
    drop(stream);
    wait_until_idle(&engine);
}
