//! Sixteen threads, every way of reading, and less memory than they want: each byte is right, all
//! of them end, and nothing stays behind.

#![allow(clippy::cast_possible_truncation, reason = "offsets are drawn from words")]

use crate::recorded;
use crate::support;

use std::collections::VecDeque;
use std::sync::Barrier;

use foreread::{Advice, Engine, File, PageGuard, Policy, ReadError, ReadErrorKind, ReadStream};
use recorded::recorded;
use support::{PAGE, Random, check, read_and_check, wait_until_idle, with_each_io, write_file};
use tempfile::TempDir;

const FILES: u64 = 3;
const THREADS: u64 = 16;

/// How long file number `file` is: none ends where a page does, nor a sector.
fn len(file: u64) -> u64 {
    (2 << 20) + 1_000_003 * file + 777
}

/// Some bytes, mostly few, now and then more than any window.
fn room(random: &mut Random) -> u64 {
    match random.below(20) {
        0 => random.below(300_000),
        1..6 => random.below(40_000),
        _ => random.below(5000),
    }
}

/// A thread's files, and its chance.
struct Reader<'f> {
    files: &'f [File],
    random: Random,
    buffer: Vec<u8>,
}

impl Reader<'_> {
    fn read(&mut self, stream: Option<&ReadStream>, file: u64, offset: u64, room: u64) -> u64 {
        let to = &mut self.buffer[..room as usize];
        let got = match stream {
            Some(stream) => stream.read_at(to, offset).unwrap(),
            None => self.files[file as usize].read_at(to, offset).unwrap(),
        };
        assert_eq!(got as u64, room.min(len(file) - offset), "{room} at {offset} of {file}");
        check(file, offset, &to[..got]);
        got as u64
    }

    fn at_random(&mut self, reads: u64) {
        for _ in 0..reads {
            let file = self.random.below(FILES);
            let (offset, room) = (self.random.below(len(file) + 1), room(&mut self.random));
            self.read(None, file, offset, room);
        }
    }

    fn forward(&mut self, reads: u64) {
        let file = self.random.below(FILES);
        let stream = self.files[file as usize].stream();
        let mut offset = self.random.below(len(file));
        let most = 1 + room(&mut self.random);
        for _ in 0..reads {
            let got = self.read(Some(&stream), file, offset, most);
            offset = if got < most { 0 } else { offset + got };
        }
    }

    fn backward(&mut self, reads: u64) {
        let file = self.random.below(FILES);
        let stream = self.files[file as usize].stream();
        let mut end = len(file);
        for _ in 0..reads {
            let room = (1 + room(&mut self.random)).min(end);
            self.read(Some(&stream), file, end - room, room);
            end = if end == room { len(file) } else { end - room };
        }
    }

    /// Three places of one file in turns, by one stream, as a join of sorted runs reads.
    fn interleaved(&mut self, reads: u64) {
        let file = self.random.below(FILES);
        let stream = self.files[file as usize].stream();
        let mut places = [0, len(file) / 3, len(file) / 3 * 2];
        let step = 1 + self.random.below(20_000);
        for i in 0..reads {
            let place = &mut places[i as usize % 3];
            let offset = *place % len(file);
            *place = offset + step;
            self.read(Some(&stream), file, offset, step);
        }
    }

    /// A few pages pinned at any time, each checked when it is pinned and when it is let go.
    fn pinned(&mut self, reads: u64) {
        let file = self.random.below(FILES);
        let stream = self.files[file as usize].stream();
        let most = 1 + self.random.below(12) as usize;
        let mut pins: VecDeque<(u64, PageGuard<'_>)> = VecDeque::new();
        let let_go = |(offset, pin): (u64, PageGuard<'_>)| check(file, offset, &pin);
        let mut next = self.random.below(len(file));
        for _ in 0..reads {
            if self.random.below(4) == 0 {
                next = self.random.below(len(file) + 1);
            }
            match stream.pin(next) {
                Ok(pin) => {
                    let want = (PAGE - next % PAGE).min(len(file) - next);
                    assert_eq!(pin.len() as u64, want, "at {next} of {file}");
                    check(file, next, &pin);
                    pins.push_back((next, pin));
                }
                // All threads together want more than may be pinned.
                Err(ReadError { kind: ReadErrorKind::PinLimit { .. }, .. }) => {
                    let room = self.random.below(5000);
                    self.read(Some(&stream), file, next, room);
                }
                Err(error) => panic!("{error}"),
            }
            next = (next + PAGE) % (len(file) + 1);
            if pins.len() > most {
                pins.pop_front().map(let_go).unwrap();
            }
        }
        pins.into_iter().for_each(let_go);
    }

    /// Says what it is going to read, then reads it; or says what it does not need any more.
    fn hinted(&mut self, reads: u64) {
        for _ in 0..reads / 4 {
            let file = self.random.below(FILES);
            let handle = &self.files[file as usize];
            let places: Vec<_> = (0..4).map(|_| self.random.below(len(file))).collect();
            let rooms: Vec<_> = (0..4).map(|_| 1 + room(&mut self.random)).collect();
            let ranges = places.iter().zip(&rooms).map(|(place, room)| *place..place + room);
            let pages: u64 = rooms.iter().map(|room| room / PAGE + 2).sum();
            assert!(handle.will_need(ranges).unwrap() <= pages);
            for (place, room) in places.into_iter().zip(rooms) {
                self.read(None, file, place, room);
            }
            if self.random.below(5) == 0 {
                let from = self.random.below(len(file));
                let handle = &self.files[file as usize];
                handle.dont_need(from..from + self.random.below(1 << 20)).unwrap();
            }
        }
    }

    /// Streams that have advice.
    fn advised(&mut self, reads: u64) {
        let file = self.random.below(FILES);
        let stream = self.files[file as usize].stream();
        let mut offset = self.random.below(len(file));
        for i in 0..reads {
            match i % 16 {
                0 => stream.advise(Advice::Sequential),
                4 => stream.advise(Advice::Random),
                8 => stream.advise(Advice::NoReuse),
                12 => stream.advise(Advice::Normal),
                _ => {}
            }
            let room = room(&mut self.random);
            offset = (offset + self.read(Some(&stream), file, offset, room)) % len(file);
        }
    }
}

#[test]
fn sixteen_threads_that_fight_for_memory_read_the_right_bytes() {
    let dir = TempDir::new().unwrap();
    let paths: Vec<_> = (0..FILES).map(|file| write_file(dir.path(), file, len(file))).collect();
    with_each_io("sixteen_threads_that_fight_for_memory", |io| {
        for (memory, policy) in [(1 << 20, Policy::Linux6), (4 << 20, Policy::Adaptive)] {
            let engine = recorded(Engine::builder().memory(memory).policy(policy).io_backend(io));
            let files: Vec<_> = paths.iter().map(|path| engine.open(path).unwrap()).collect();
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let files = &files;
                    scope.spawn(move || {
                        let random = Random(thread << 32 | memory);
                        let mut reader = Reader { files, random, buffer: vec![0; 300_001] };
                        for round in 0..7 {
                            match (thread + round) % 7 {
                                0 => reader.at_random(30),
                                1 => reader.forward(30),
                                2 => reader.backward(30),
                                3 => reader.interleaved(30),
                                4 => reader.pinned(60),
                                5 => reader.hinted(30),
                                _ => reader.advised(30),
                            }
                        }
                    });
                }
            });
            wait_until_idle(&engine);
            let counters = engine.counters().unwrap();
            assert!(counters.cache.evictions > 0 && counters.hits > 0, "{counters:?}");
        }
    });
}

/// Again and again two threads want the same pages at the same time, and neither has them.
#[test]
fn two_threads_that_always_meet_at_the_same_pages_both_get_them() {
    const MEETINGS: u64 = 300;

    let dir = TempDir::new().unwrap();
    let path = write_file(dir.path(), 0, len(0));
    with_each_io("two_threads_that_always_meet", |io| {
        let engine = recorded(Engine::builder().memory(1 << 20).io_backend(io));
        let (file, meeting) = (engine.open(&path).unwrap(), Barrier::new(2));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut random = Random(4711);
                    let mut buffer = vec![0; 40_000];
                    for _ in 0..MEETINGS {
                        let offset = random.below(len(0));
                        let room = random.below(40_000) as usize;
                        meeting.wait();
                        read_and_check(&file, 0, &mut buffer[..room], offset);
                    }
                });
            }
        });
        wait_until_idle(&engine);
        assert!(
            engine.counters().unwrap().path.pages_joined > 0,
            "{:?}",
            engine.counters().unwrap()
        );
    });
}

/// Files that open and close while others read them: the last handle may go in any thread.
#[test]
fn threads_that_open_and_close_the_same_files_all_the_time_read_the_right_bytes() {
    let dir = TempDir::new().unwrap();
    let paths: Vec<_> = (0..FILES).map(|file| write_file(dir.path(), file, len(file))).collect();
    with_each_io("threads_that_open_and_close", |io| {
        let engine = recorded(Engine::builder().memory(1 << 20).io_backend(io));
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (engine, paths) = (&engine, &paths);
                scope.spawn(move || {
                    let mut random = Random(thread << 32);
                    let mut buffer = vec![0; 40_000];
                    for _ in 0..100 {
                        let number = random.below(FILES);
                        let file = engine.open(&paths[number as usize]).unwrap();
                        for _ in 0..1 + random.below(3) {
                            let offset = random.below(len(number));
                            let room = random.below(40_000) as usize;
                            read_and_check(&file, number, &mut buffer[..room], offset);
                        }
                    }
                });
            }
        });
        wait_until_idle(&engine);
    });
}
