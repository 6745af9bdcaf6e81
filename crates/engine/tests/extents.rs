//! Files in pieces of a device: their bytes, their holes, and what they cost.

use std::path::PathBuf;
use std::sync::Arc;

mod common;
mod recorded;
mod support;

use foreread::{Advice, BadLayout, Engine, Extent, Faults, File, Io, OpenError, OpenOptions};
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
    fn new(io: Io) -> Self {
        let dir = TempDir::new_in(common::scratch()).unwrap();
        let path = write_file(dir.path(), 0, 8 * MIB);
        let engine = recorded(Engine::builder().memory(4 << 20).io(io));
        let (image, faults) = open_faulty(&engine, &path);
        Self { engine, image, faults, path, _dir: dir }
    }

    fn open(&self, identity: u64, len: u64, extents: &[Extent]) -> File {
        self.image.open_extents(identity, len, extents.iter().copied()).unwrap()
    }

    fn device_reads(&self) -> u64 {
        self.engine.counters().path.device_reads
    }
}

fn data(start: u64, len: u64, place: u64) -> Extent {
    Extent { start, len, place: Some(place) }
}

/// The bytes that a file of these extents has.
fn content(len: u64, extents: &[Extent]) -> Vec<u8> {
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
            Extent { start: 80 * PAGE, len: 5 * PAGE, place: None },
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
        assert!(read_all(&file, 5000) == vec![0; 100 * PAGE as usize]);
        assert_eq!(bench.device_reads(), 0);
        // Asked for by name, and by nobody who waits.
        let file = bench.open(2, 100 * PAGE, &[data(0, PAGE, 0)]);
        assert_eq!(file.will_need([PAGE..50 * PAGE]).unwrap(), 49);
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
        assert_eq!(engine.frames().0, engine.frames().1);
    });
}
