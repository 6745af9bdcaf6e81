//! The observer of an engine's reads.

use crate::common;

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use common::scratch;
use foreread::{Engine, File};
use futures_lite::future::block_on;

type Told = Arc<Mutex<Vec<(PathBuf, u64, u64)>>>;

/// A file of 100,000 bytes in an engine whose observer keeps what it is told.
fn observed(name: &str) -> (File, Told, PathBuf) {
    let path = scratch().join(name);
    fs::write(&path, vec![7; LEN]).unwrap();
    let told = Told::default();
    let engine = Engine::builder().memory(8 << 20).observe_reads({
        let told = Arc::clone(&told);
        move |read| {
            assert_eq!(read.file_len, LEN as u64);
            let read = (read.path.to_owned(), read.offset, read.length);
            told.lock().unwrap().push(read);
        }
    });
    (engine.build().unwrap().open(&path).unwrap(), told, path)
}

fn taken(told: &Told) -> Vec<(u64, u64)> {
    let told = std::mem::take(&mut *told.lock().unwrap());
    told.into_iter().map(|(_, offset, length)| (offset, length)).collect()
}

#[test]
fn every_read_call_is_observed_once_on_hit_or_miss() {
    let (file, told, path) = observed("observed-ways");
    let mut buffer = vec![0; 5000];
    for _ in ["misses", "hits"] {
        file.read_at(&mut buffer, 10).unwrap();
        file.read_exact_at(&mut buffer, 20_000).unwrap();
        block_on(file.read_at_async(&mut buffer, 30_000)).unwrap();
        drop(file.pin(40_000).unwrap());
        drop(file.pin_range(45_000..55_000).unwrap());
        file.read_ranges(&[60_000..60_100, 0..5, 99_000..200_000, 3..3]).unwrap();
        assert_eq!(told.lock().unwrap()[0].0, path);
        let expected = [
            (10, 5000),
            (20_000, 5000),
            (30_000, 5000),
            (40_000, 960),
            (45_000, 10_000),
            (60_000, 100),
            (0, 5),
            (99_000, 1000),
        ];
        assert_eq!(taken(&told), expected);
    }
}

#[test]
fn a_call_that_only_takes_hits_is_a_read_when_it_is_one() {
    let (file, told, _) = observed("observed-hits");
    let stream = file.stream();
    let mut buffer = vec![0; 100];
    assert!(!stream.try_read_at(&mut buffer, 8192));
    assert_eq!(taken(&told), []);
    stream.read_at(&mut buffer, 8192).unwrap();
    assert!(stream.try_read_at(&mut buffer, 8192));
    let pin = stream.pin(8200).unwrap();
    drop(pin);
    let mut pins = Vec::new();
    assert!(stream.try_pin_all(8192, 100, &mut pins));
    assert_eq!(taken(&told), [(8192, 100), (8192, 100), (8200, 4088), (8192, 100)]);
}

#[test]
fn empty_reads_are_not_observed_and_others_end_with_the_file() {
    let (file, told, _) = observed("observed-end");
    let mut buffer = vec![0; 5000];
    let len = LEN as u64;
    assert_eq!(file.read_at(&mut buffer, len - 10).unwrap(), 10);
    assert_eq!(file.read_at(&mut buffer, len).unwrap(), 0);
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
    assert_eq!(file.read_at(&mut buffer, len + 1).unwrap(), 0);
    assert_eq!(taken(&told), [(len - 10, 10)]);
    file.will_need(std::iter::once(0..4096)).unwrap();
    assert_eq!(taken(&told), [], "a hint is no read");
}

const LEN: usize = 100_000;
