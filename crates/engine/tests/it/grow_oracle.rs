//! Random operations on a file of the engine and on one of std: the same bytes, the same lengths.
//!
//! ```text
//!   one thread       write, append, set_len, read, flush, close and open   the same after each
//!   four threads     |== 0 ==|== 1 ==|== 2 ==|== 3 ==| appends of all      the same at the end of
//!                     writes and reads of their own                        each round; then a cut
//! ```

#![allow(clippy::cast_possible_truncation, reason = "files of tests are small")]

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::common;
use crate::recorded;
use crate::support;

use foreread::{Engine, File, IoBackend, OpenOptions, WriteMode};
use recorded::recorded;
use support::{Random, with_each_io};
use tempfile::TempDir;

const STEPS: u64 = 200;
const THREADS: u64 = 4;
const ROUNDS: u64 = 6;
/// More than the memory, so that pages are evicted.
const MOST: u64 = 3 << 19;

fn options(buffered: bool) -> OpenOptions {
    OpenOptions::new().write(true).create(true).buffered(buffered)
}

fn with_each(test: &str, run: impl Fn(&Engine, &Path, bool, &mut Random)) {
    with_each_io(test, |io| {
        for buffered in [false, true] {
            let dir = TempDir::new_in(common::scratch()).expect("a directory");
            let engine = recorded(Engine::builder().memory(1 << 20).io_backend(io));
            let seed = 7 + u64::from(buffered) + 2 * u64::from(io == IoBackend::IoUring);
            run(&engine, dir.path(), buffered, &mut Random(seed));
        }
    });
}

/// Mostly small, and seldom whole pages.
fn len_of(random: &mut Random) -> usize {
    let most = [50, 600, 5000, 20_000, 200_000][random.below(5) as usize];
    let len = random.below(most) + 1;
    (if random.below(5) == 0 { len.next_multiple_of(4096) } else { len }) as usize
}

fn bytes_of(random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; len_of(random)];
    support::fill(random.below(1 << 20), 0, &mut bytes);
    bytes
}

fn mode_of(random: &mut Random) -> WriteMode {
    match random.below(12) {
        0 => WriteMode::Fua,
        1 => WriteMode::WriteThrough,
        _ => WriteMode::WriteBack,
    }
}

/// All of both are the same, by the engine; and by std, after a flush.
fn compare(file: &File, std: &fs::File, context: &str) {
    let len = std.metadata().expect("a length").len();
    assert_eq!(file.len(), len, "{context}");
    let (mut got, mut want) = (vec![0xff; len as usize + 1], vec![0; len as usize]);
    assert_eq!(file.read_at(&mut got, 0).expect("bytes"), want.len(), "{context}");
    std.read_exact_at(&mut want, 0).expect("bytes");
    let wrong = want.iter().zip(&got).position(|(want, got)| want != got);
    assert_eq!(wrong, None, "{context}: of {len}");
}

fn zero(file: &File, std: &fs::File, len: u64, random: &mut Random) -> String {
    let (start, end) = (random.below(len + 1), random.below(len + 1));
    let range = start.min(end)..start.max(end);
    file.write_zeroes(range.clone(), random.below(2) == 0).expect("inside");
    let zeros = vec![0; (range.end - range.start) as usize];
    std.write_all_at(&zeros, range.start).expect("room");
    format!("zero {range:?}")
}

fn read(file: &File, std: &fs::File, len: u64, random: &mut Random) {
    let offset = random.below(len + 1);
    let mut bytes = vec![0xff; len_of(random)];
    let got = file.read_at(&mut bytes, offset).expect("bytes");
    let mut want = vec![0; bytes.len().min((len - offset) as usize)];
    std.read_exact_at(&mut want, offset).expect("bytes");
    assert!(bytes[..got] == want, "{} at {offset}", bytes.len());
}

#[test]
fn one_thread_finds_what_std_finds() {
    with_each("one_thread_finds_what_std_finds", |engine, dir, buffered, random| {
        let (path, oracle) = (dir.join("file"), dir.join("oracle"));
        let open = || engine.open_with(&path, &options(buffered)).expect("it is made");
        let mut file = open();
        let std = fs::File::options().read(true).write(true).create_new(true).open(&oracle);
        let std = std.expect("it is made");
        let mut what = Vec::new();
        for step in 0..STEPS {
            let len = std.metadata().expect("a length").len();
            let did = match random.below(20) {
                0..8 => {
                    let (bytes, mode) = (bytes_of(random), mode_of(random));
                    // Sometimes far behind the end.
                    let offset = random.below((len + 20_000).min(MOST));
                    file.write_all_at_with(&bytes, offset, mode).expect("room");
                    std.write_all_at(&bytes, offset).expect("room");
                    format!("{mode:?} {} at {offset}", bytes.len())
                }
                8..12 => {
                    let bytes = bytes_of(random);
                    assert_eq!(file.append(&bytes).expect("room"), len);
                    std.write_all_at(&bytes, len).expect("room");
                    format!("append {}", bytes.len())
                }
                12..15 => {
                    let to = if random.below(3) == 0 {
                        random.below(MOST)
                    } else {
                        (len + random.below(9000)).saturating_sub(random.below(12_000))
                    };
                    file.set_len(to).expect("room");
                    std.set_len(to).expect("room");
                    format!("set_len {to}")
                }
                15 => zero(&file, &std, len, random),
                16..18 => {
                    read(&file, &std, len, random);
                    continue;
                }
                18 => {
                    file.sync_data().expect("room");
                    assert!(fs::read(&path).expect("bytes") == fs::read(&oracle).expect("bytes"));
                    "flush".to_owned()
                }
                _ => {
                    drop(file);
                    file = open();
                    "open".to_owned()
                }
            };
            what.push(did);
            if what.len() > 12 {
                what.remove(0);
            }
            if step % 4 == 0 {
                compare(&file, &std, &format!("step {step}, buffered {buffered}: {what:#?}"));
            }
        }
        drop(file);
        assert!(fs::read(&path).expect("bytes") == fs::read(&oracle).expect("bytes"));
    });
}

/// What one thread does in its own part of both files, and at their end.
fn work(file: &File, std: &fs::File, part: std::ops::Range<u64>, random: &mut Random) {
    for _ in 0..60 {
        let bytes = bytes_of(random);
        let most = part.end - part.start;
        let len = (bytes.len() as u64).min(most);
        let offset = part.start + random.below(most - len + 1);
        let bytes = &bytes[..len as usize];
        match random.below(8) {
            0..4 => {
                file.write_all_at_with(bytes, offset, mode_of(random)).expect("room");
                std.write_all_at(bytes, offset).expect("room");
            }
            4..6 => {
                let at = file.append(bytes).expect("room");
                std.write_all_at(bytes, at).expect("room");
                let mut got = vec![0; bytes.len()];
                assert_eq!(file.read_at(&mut got, at).expect("bytes"), got.len());
                assert!(got == bytes, "an append is read as it was written");
            }
            6 => {
                let (mut got, mut want) = (vec![0xff; bytes.len()], vec![0; bytes.len()]);
                assert_eq!(file.read_at(&mut got, offset).expect("bytes"), got.len());
                std.read_exact_at(&mut want, offset).expect("bytes");
                assert!(got == want, "{} at {offset}", got.len());
            }
            _ => file.sync_data().expect("room"),
        }
    }
}

#[test]
fn threads_with_parts_of_their_own_and_appends_find_what_std_finds() {
    with_each("threads_with_parts_of_their_own_and_appends", |engine, dir, buffered, random| {
        let (path, oracle) = (dir.join("file"), dir.join("oracle"));
        let file = engine.open_with(&path, &options(buffered)).expect("it is made");
        let std = fs::File::options().read(true).write(true).create_new(true).open(&oracle);
        let std = std.expect("it is made");
        for round in 0..ROUNDS {
            // Not at pages: neighbours share them.
            let part = 50_000 + random.below(100_000);
            file.set_len(part * THREADS).expect("room");
            std.set_len(part * THREADS).expect("room");
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let mut random = Random(random.below(u64::MAX));
                    let (file, std) = (&file, &std);
                    let part = part * thread..part * (thread + 1);
                    scope.spawn(move || work(file, std, part, &mut random));
                }
            });
            compare(&file, &std, &format!("round {round}, buffered {buffered}"));
        }
        file.sync_all().expect("room");
        assert!(fs::read(&path).expect("bytes") == fs::read(&oracle).expect("bytes"));
    });
}
