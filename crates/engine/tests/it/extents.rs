//! Extent-mapped files: their bytes, their holes, and what they cost.

use std::path::PathBuf;
use std::sync::Arc;

use crate::common;
use crate::recorded;
use crate::support;

use foreread::testing::{Faults, Mishap};
use foreread::{
    Engine, File, FileExtent, InvalidExtents, IoBackend, OpenError, OpenErrorKind, OpenOptions,
    ReadError, ReadErrorKind, WriteErrorKind,
};
use recorded::{Recorded, recorded};
use support::{PAGE, Random, check, fill, open_faulty, wait_until_idle, with_each_io, write_file};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// An image of 8 MiB, every byte of which is known.
struct Bench {
    engine: Recorded,
    image: File,
    faults: Arc<Faults>,
    path: PathBuf,
    _dir: TempDir,
}

impl Bench {
    fn new(io: IoBackend) -> Self {
        let dir = TempDir::new_in(common::scratch()).unwrap();
        let path = write_file(dir.path(), 0, 8 * MIB);
        let engine = recorded(Engine::builder().memory(4 << 20).io_backend(io));
        let (image, faults) = open_faulty(&engine, &path);
        Self { engine, image, faults, path, _dir: dir }
    }

    fn open(&self, identity: u64, len: u64, extents: &[FileExtent]) -> File {
        self.image.open_extents(identity, len, extents.iter().copied()).unwrap()
    }

    fn device_reads(&self) -> u64 {
        self.engine.counters().unwrap().path.device_reads
    }
}

fn data(start: u64, len: u64, place: u64) -> FileExtent {
    FileExtent { start, len, place: Some(place) }
}

/// The bytes that a file of these extents has.
fn content(len: u64, extents: &[FileExtent]) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(len).unwrap()];
    for extent in extents {
        let Some(place) = extent.place else { continue };
        let end = (extent.start + extent.len).min(len);
        let range = usize::try_from(extent.start).unwrap()..usize::try_from(end).unwrap();
        if extent.start < end {
            fill(0, place, &mut bytes[range]);
        }
    }
    bytes
}

fn read_all(file: &File, step: usize) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0xa5; step]);
    loop {
        match file.read_at(&mut buffer, bytes.len() as u64).unwrap() {
            0 => return bytes,
            got => bytes.extend_from_slice(&buffer[..got]),
        }
    }
}

#[test]
fn a_file_in_pieces_has_the_bytes_of_its_pieces_and_zeros_between() {
    with_each_io("a_file_in_pieces_has_the_bytes_of_its_pieces_and_zeros_between", |io| {
        let bench = Bench::new(io);
        let extents = [
            data(0, 64 * PAGE, 4 * MIB),
            data(64 * PAGE, 10 * PAGE, MIB),
            FileExtent { start: 80 * PAGE, len: 5 * PAGE, place: None },
            data(90 * PAGE, 200 * PAGE, 2 * MIB),
        ];
        let len = 300 * PAGE + 100;
        let file = bench.open(7, len, &extents);
        assert_eq!(file.len(), len);
        assert!(read_all(&file, 10_000) == content(len, &extents));
        assert!(read_all(&file, 10_000) == content(len, &extents), "and again, from memory");
        let stream = file.stream();
        let pin = stream.pin(75 * PAGE + 5).unwrap();
        assert_eq!(&*pin, &[0; 4091], "a hole");
        let mut bytes = vec![0; 4096];
        assert_eq!(bench.image.read_at(&mut bytes, 4 * MIB).unwrap(), 4096);
        check(0, 4 * MIB, &bytes);
        let parts = file.extents(0..len).unwrap();
        let want = [
            (0..74 * PAGE, true),
            (74 * PAGE..90 * PAGE, false),
            (90 * PAGE..290 * PAGE, true),
            (290 * PAGE..len, false),
        ];
        assert_eq!(parts.len(), 5, "the two first pieces are apart on the device");
        assert_eq!((parts[0].0.end, parts[1].0.end), (64 * PAGE, want[0].0.end));
        assert_eq!(parts[2..], want[1..]);
    });
}

/// A hole that asked the device for anything would make a sparse file as slow as a full one.
#[test]
fn pages_of_a_hole_cost_no_request() {
    with_each_io("pages_of_a_hole_cost_no_request", |io| {
        let bench = Bench::new(io);
        let file = bench.open(1, 100 * PAGE, &[]);
        assert!(read_all(&file, 5000) == [0; 100 * 4096]);
        assert_eq!(bench.device_reads(), 0);
        // Announced by name, with no reader that waits.
        let file = bench.open(2, 100 * PAGE, &[data(0, PAGE, 0)]);
        assert_eq!(file.will_need(std::iter::once(PAGE..50 * PAGE)).unwrap(), 49);
        wait_until_idle(&bench.engine);
        assert_eq!(bench.device_reads(), 0);
        assert_eq!(file.stream().try_pin(20 * PAGE).as_deref(), Some(&[0; 4096][..]));
    });
}

#[test]
fn one_name_is_one_file_while_it_is_open() {
    with_each_io("one_name_is_one_file_while_it_is_open", |io| {
        let bench = Bench::new(io);
        let extents = [data(0, 10 * PAGE, MIB)];
        let file = bench.open(5, 10 * PAGE, &extents);
        read_all(&file, 4096);
        let reads = bench.device_reads();
        let again = bench.open(5, 10 * PAGE, &extents);
        assert!(read_all(&again, 4096) == content(10 * PAGE, &extents));
        assert_eq!(bench.device_reads(), reads, "the same pages");
        let other = bench.open(6, 10 * PAGE, &extents);
        read_all(&other, 4096);
        assert!(bench.device_reads() > reads, "another file, with pages of its own");
        drop((file, again));
        let reads = bench.device_reads();
        let anew = bench.open(5, 2 * PAGE, &[data(0, 2 * PAGE, 0)]);
        assert!(read_all(&anew, 4096) == content(2 * PAGE, &[data(0, 2 * PAGE, 0)]));
        assert!(bench.device_reads() > reads, "its pages had left");
        // The device stays for its files.
        let Bench { engine, image, .. } = &bench;
        drop(image.clone());
        assert_eq!(anew.refresh().unwrap(), 2 * PAGE);
        assert_eq!(engine.frames().unwrap().0, engine.frames().unwrap().1);
    });
}

/// Extents of blocks of so many bytes, some after one another on the device and most not, with
/// holes between some of them.
fn scattered(block: u64, len: u64, seed: u64) -> Vec<FileExtent> {
    let mut random = Random(seed);
    let (mut extents, mut at) = (Vec::new(), 0);
    while at < len {
        let most = if random.below(4) == 0 { 60 } else { 3 };
        let blocks = 1 + random.below(most);
        if random.below(5) > 0 {
            extents.push(data(at, blocks * block, random.below((3 * MIB) / block) * block));
        }
        at += blocks * block;
    }
    extents
}

#[test]
fn files_of_small_blocks_have_their_own_bytes_however_they_are_read() {
    with_each_io("files_of_small_blocks_have_their_own_bytes_however_they_are_read", |io| {
        let bench = Bench::new(io);
        for (number, block) in [512, 1024, 2048, 4096, 65_536].into_iter().enumerate() {
            let (len, number) = (400_000 + 333 * block, number as u64);
            let extents = scattered(block, len, block);
            let want = content(len, &extents);
            let file = bench.open(number, len, &extents);
            assert!(read_all(&file, 9999) == want, "blocks of {block}");
            // More than the memory has been read by now, so these are hits and misses.
            let mut random = Random(number);
            let mut buffer = vec![0; 50_000];
            for _ in 0..100 {
                let (at, count) = (random.below(len), 1 + random.below(50_000));
                let to = &mut buffer[..usize::try_from(count).unwrap()];
                let got = file.read_at(to, at).unwrap();
                let at = usize::try_from(at).unwrap();
                assert!(to[..got] == want[at..at + got], "blocks of {block}, at {at}");
            }
        }
        wait_until_idle(&bench.engine);
    });
}

#[test]
fn threads_that_read_files_in_pieces_of_one_device_see_each_their_own() {
    with_each_io("threads_that_read_files_in_pieces_of_one_device_see_each_their_own", |io| {
        let bench = Bench::new(io);
        std::thread::scope(|scope| {
            for number in 0..6_u64 {
                let (bench, block) = (&bench, 512 << (number % 4));
                scope.spawn(move || {
                    for round in 0..3 {
                        let len = 300_000 + number;
                        let extents = scattered(block, len, number / 2);
                        let file = bench.open(number / 2 + 10 * block, len, &extents);
                        assert!(read_all(&file, 7000) == content(len, &extents), "round {round}");
                    }
                });
            }
        });
        wait_until_idle(&bench.engine);
    });
}

#[test]
fn a_bad_piece_is_the_error_of_its_own_pages_and_named_by_its_file() {
    with_each_io("a_bad_piece_is_the_error_of_its_own_pages_and_named_by_its_file", |io| {
        let bench = Bench::new(io);
        // Page 2 of the file has its second half in page 700 of the image.
        let extents = [
            data(0, 2 * PAGE + 2048, MIB),
            data(2 * PAGE + 2048, 2048, 700 * PAGE),
            data(3 * PAGE, 20 * PAGE, 3 * MIB),
        ];
        let len = 23 * PAGE;
        let (file, want) = (bench.open(12, len, &extents), content(len, &extents));
        bench.faults.inject(700..701, 0..u32::MAX, Mishap::Errno(libc::EIO));
        let mut page = [0; 4096];
        for _ in 0..2 {
            for number in 0..23_u64 {
                let at = usize::try_from(number * PAGE).unwrap();
                match file.read_at(&mut page, number * PAGE) {
                    Ok(4096) => assert!(page[..] == want[at..at + 4096] && number != 2),
                    Err(ReadError { path, kind: ReadErrorKind::Io { source, .. } }) => {
                        assert_eq!((number, source.raw_os_error()), (2, Some(libc::EIO)));
                        assert_eq!(
                            path,
                            PathBuf::from(format!("{}, file 12", bench.path.display()))
                        );
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        bench.faults.clear();
        assert!(read_all(&file, 5000) == want, "it is asked again when it is wanted again");
        wait_until_idle(&bench.engine);
    });
}

#[test]
fn a_device_that_ends_requests_early_costs_files_in_pieces_no_bytes() {
    with_each_io("a_device_that_ends_requests_early_costs_files_in_pieces_no_bytes", |io| {
        let bench = Bench::new(io);
        for n in 0..20 {
            bench.faults.inject(0..2048, n * 5..n * 5 + 1, Mishap::Short(700));
        }
        let extents = scattered(1024, 500_000, 3);
        let (file, want) = (bench.open(1, 500_000, &extents), content(500_000, &extents));
        let (mut at, mut buffer) = (0, [0; 3000]);
        // A request that was for one page alone has no second try.
        for _ in 0..10_000 {
            match file.read_at(&mut buffer, at as u64) {
                Ok(0) => break,
                Ok(got) => {
                    assert!(buffer[..got] == want[at..at + got], "at {at}");
                    at += got;
                }
                Err(error) => assert!(matches!(error.kind, ReadErrorKind::Short { .. }), "{error}"),
            }
        }
        assert_eq!(at, want.len());
        assert!(bench.faults.struck() > 0);
        wait_until_idle(&bench.engine);
    });
}

#[test]
fn a_file_whose_device_shrank_is_an_error_where_it_is_gone_and_has_its_length_still() {
    with_each_io(
        "a_file_whose_device_shrank_is_an_error_where_it_is_gone_and_has_its_length_still",
        |io| {
            let bench = Bench::new(io);
            let extents = [data(0, 10 * PAGE, MIB), data(10 * PAGE, 10 * PAGE, 6 * MIB)];
            let file = bench.open(1, 20 * PAGE, &extents);
            let image = std::fs::File::options().write(true).open(&bench.path).unwrap();
            image.set_len(5 * MIB).unwrap();
            let mut page = [0; 4096];
            assert_eq!(file.read_at(&mut page, 0).unwrap(), 4096);
            let error = file.read_at(&mut page, 15 * PAGE).unwrap_err();
            assert!(matches!(error.kind, ReadErrorKind::Short { len: 81_920, .. }), "{error}");
            assert_eq!(file.refresh().unwrap(), 20 * PAGE);
            assert_eq!(file.read_at(&mut page, 20 * PAGE).unwrap(), 0);
            assert_eq!(file.read_at(&mut page, 21 * PAGE).unwrap(), 0);
            wait_until_idle(&bench.engine);
        },
    );
}

#[test]
fn extents_that_make_no_sense_are_refused_and_writes_are() {
    let bench = Bench::new(IoBackend::Threads);
    let open = |extents: &[FileExtent]| bench.image.open_extents(1, 99, extents.iter().copied());
    let error = open(&[data(0, PAGE, 0), data(0, PAGE, PAGE)]).unwrap_err();
    assert!(
        matches!(
            error,
            OpenError { kind: OpenErrorKind::Extents { why: InvalidExtents::Disorder(1), .. }, .. }
        ),
        "{error}"
    );
    let error = open(&[data(0, 100, 0)]).unwrap_err();
    assert!(
        matches!(
            error,
            OpenError {
                kind: OpenErrorKind::Extents { why: InvalidExtents::Unaligned(0), .. },
                ..
            }
        ),
        "{error}"
    );
    let error = open(&[data(0, 8192, 8 * MIB - 4096)]).unwrap_err();
    let want = format!(
        "{}: an extent ends at 8392704, past the end of the device at 8388608: check the file \
         system, and whether the image is complete",
        bench.path.display()
    );
    assert_eq!(error.to_string(), want);
    let many = (0..20_000).map(|n| data(n * 1024, 512, n * 400 / 512 * 512));
    let error = bench.image.open_extents(1, MIB, many).unwrap_err();
    assert!(
        matches!(error, OpenError { kind: OpenErrorKind::ManyExtents { limit, .. }, .. } if limit.0 == 4 * MIB / 16)
    );

    let file = open(&[data(0, PAGE, 0)]).unwrap();
    let error = file.write_all_at(&[1], 0).unwrap_err();
    assert!(matches!(error.kind, WriteErrorKind::ReadOnly), "{error}");
    assert!(!file.is_writable());
    drop(file);
    let Bench { engine, image, path, .. } = &bench;
    let written = write_file(path.parent().unwrap(), 9, MIB);
    let options = OpenOptions::new().write(true);
    let written = engine.open_with(written, &options).unwrap();
    let error = written.open_extents(1, PAGE, [data(0, PAGE, 0)]).unwrap_err();
    assert!(matches!(error, OpenError { kind: OpenErrorKind::Overlap, .. }), "{error}");
    assert!(image.open_extents(1, 1 << 63, []).is_err());
}

/// All of them were once kept before they were counted.
#[test]
fn extents_without_an_end_are_refused_when_they_are_too_many() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("image");
    std::fs::write(&path, [0; 8192]).unwrap();
    let engine = Engine::builder().memory(1 << 20).build().unwrap();
    let device = engine.open(&path).unwrap();
    let mut asked = 0;
    let endless = (0..u64::MAX).map(|number| {
        asked += 1;
        FileExtent { start: number * 8192, len: 512, place: Some(0) }
    });
    let refused = device.open_extents(7, 4096, endless).unwrap_err();
    assert!(
        matches!(refused, OpenError { kind: OpenErrorKind::ManyExtents { .. }, .. }),
        "{refused}"
    );
    assert!(asked < 10_000, "{asked}");
}
