//! Power cuts: what a flush has acknowledged is there, and what it has not is there or not, sector
//! by sector, but never torn inside one.
//!
//! ```text
//!   writer    issued = v   write v ...  flush ...  flushed = v
//!   cutter         flushed? -- cut -- issued?        each sector of a block has a version between
//! ```

#![allow(clippy::cast_possible_truncation, reason = "a small device")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::recorded;
use crate::support;

use foreread::testing::VolatileDisk;
use foreread::{Engine, File, IoBackend, OpenOptions, WriteMode};
use recorded::{Recorded, recorded};
use support::{Random, Watchdog};

/// Neither whole sectors nor whole pages: neighbours share both.
const BLOCK: usize = 1000;
const BLOCKS: usize = 250;
const LEN: usize = 250_880;
const SECTOR: usize = 512;
const WRITERS: usize = 4;
const CUTS: u64 = 1000;

/// What is known of each block.
struct Books {
    /// The newest version that a writer has begun to write.
    issued: Vec<AtomicU32>,
    /// The newest that was acknowledged to be durable.
    flushed: Vec<AtomicU32>,
    is_over: AtomicBool,
    flushes: AtomicU64,
}

impl Books {
    fn new() -> Self {
        let versions = || (0..BLOCKS).map(|_| AtomicU32::new(0)).collect();
        let (issued, flushed) = (versions(), versions());
        Self { issued, flushed, is_over: AtomicBool::new(false), flushes: AtomicU64::new(0) }
    }

    fn read(versions: &[AtomicU32]) -> Vec<u32> {
        versions.iter().map(|version| version.load(Ordering::SeqCst)).collect()
    }
}

fn content(block: usize, version: u32) -> Vec<u8> {
    ((block as u64) << 32 | u64::from(version)).to_le_bytes().repeat(BLOCK / 8)
}

fn device() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..BLOCKS).flat_map(|block| content(block, 0)).collect();
    bytes.resize(LEN, 0);
    bytes
}

fn open(device: &Arc<VolatileDisk>) -> (Recorded, File) {
    let engine = recorded(Engine::builder().memory(1 << 20).io_backend(IoBackend::Threads));
    let volatile = Some(Arc::clone(device));
    let options = OpenOptions::new().write(true).volatile(volatile);
    let file = engine.open_with("a device of a test", &options).expect("threads know it");
    (engine, file)
}

fn write(file: &File, books: &Books, number: usize) {
    let mut random = Random(number as u64);
    let mut written = vec![0; BLOCKS];
    while !books.is_over.load(Ordering::SeqCst) {
        let block = random.below((BLOCKS / WRITERS) as u64) as usize * WRITERS + number;
        let version = books.issued[block].load(Ordering::SeqCst) + 1;
        books.issued[block].store(version, Ordering::SeqCst);
        let bytes = content(block, version);
        let mode = match random.below(20) {
            0 => WriteMode::Fua,
            1 => WriteMode::WriteThrough,
            _ => WriteMode::WriteBack,
        };
        file.write_all_at_with(&bytes, (block * BLOCK) as u64, mode).expect("the device is fine");
        written[block] = version;
        if mode == WriteMode::Fua {
            books.flushed[block].store(version, Ordering::SeqCst);
        }
        if random.below(30) == 0 {
            file.sync_data().expect("the device is fine");
            books.flushes.fetch_add(1, Ordering::SeqCst);
            for (flushed, &version) in books.flushed.iter().zip(&written) {
                flushed.fetch_max(version, Ordering::SeqCst);
            }
        }
    }
}

/// Each sector of each block has one version, from the last that was acknowledged on.
fn check(bytes: &[u8], flushed: &[u32], issued: &[u32]) {
    for block in 0..BLOCKS {
        let (mut at, end) = (block * BLOCK, (block + 1) * BLOCK);
        while at < end {
            let next = end.min((at / SECTOR + 1) * SECTOR);
            let (words, _) = bytes[at..next].as_chunks::<8>();
            let word = u64::from_le_bytes(words[0]);
            assert!(words.iter().all(|&other| other == words[0]), "block {block}: torn at {at}");
            assert_eq!(word >> 32, block as u64, "not of this block");
            let (version, least, most) = (word as u32, flushed[block], issued[block]);
            assert!(version >= least, "block {block}: {version}, but {least} was flushed");
            assert!(version <= most, "block {block}: {version} was never written, only {most}");
            at = next;
        }
    }
}

#[test]
fn what_was_flushed_survives_a_thousand_power_cuts() {
    let _watchdog = Watchdog::new("what_was_flushed_survives_a_thousand_power_cuts");
    let device = VolatileDisk::new(device());
    let (engine, file) = open(&device);
    let books = Books::new();
    let mut lost_something = 0;
    std::thread::scope(|scope| {
        for number in 0..WRITERS {
            let (file, books) = (file.clone(), &books);
            scope.spawn(move || write(&file, books, number));
        }
        for seed in 0..CUTS {
            let flushed = Books::read(&books.flushed);
            let bytes = device.cut(seed);
            let issued = Books::read(&books.issued);
            check(&bytes, &flushed, &issued);
            lost_something += u64::from(bytes != device.newest());
            if seed % 100 == 0 {
                begin_again(bytes, &flushed, &issued);
            }
        }
        books.is_over.store(true, Ordering::SeqCst);
    });
    assert!(books.flushes.load(Ordering::SeqCst) > 0, "there were flushes");
    assert!(lost_something > CUTS / 2, "{lost_something} cuts found something not durable");
    file.sync_data().expect("the device is fine");
    assert_eq!(device.cut(0), device.newest(), "all is durable now");
    check(&device.cut(0), &Books::read(&books.issued), &Books::read(&books.issued));
    assert!(device.syncs() > 0);
    drop(file);
    support::wait_until_idle(&engine);
}

/// After the cut a new engine finds the same, and goes on.
fn begin_again(bytes: Vec<u8>, flushed: &[u32], issued: &[u32]) {
    let device = VolatileDisk::new(bytes);
    let (_engine, file) = open(&device);
    let mut got = vec![0; LEN];
    assert_eq!(file.read_at(&mut got, 0).expect("bytes"), LEN);
    check(&got, flushed, issued);
    let last = content(7, issued[7] + 1);
    file.write_all_at_with(&last, 7 * BLOCK as u64, WriteMode::Fua).expect("the device is fine");
    assert_eq!(device.cut(1)[7 * BLOCK..8 * BLOCK], last, "a FUA write needs no flush");
}

/// The age is measured by the engine's clock: there is no flush, and no thread waits for a page.
#[test]
fn old_dirty_pages_are_written_back_without_a_flush() {
    let _watchdog = Watchdog::new("old_dirty_pages_are_written_back_without_a_flush");
    let device = VolatileDisk::new(vec![0; 1 << 20]);
    let age = std::time::Duration::from_millis(20);
    let builder = Engine::builder().memory(1 << 20).io_backend(IoBackend::Threads).dirty_age(age);
    let engine = recorded(builder);
    let volatile = Some(Arc::clone(&device));
    let options = OpenOptions::new().write(true).volatile(volatile);
    let file = engine.open_with("a device of a test", &options).expect("threads know it");
    for round in 1..=20 {
        file.write_all_at(&[round; 4096], 8192).expect("room");
        device.wait_written(8 * u64::from(round));
        assert_eq!(device.newest()[8192], round);
    }
    // What is old and not written is told from what is young: the setting is changed meanwhile.
    engine.set_by_name("dirty_age", "3600000").expect("there is such a setting");
    file.write_all_at(&[21; 4096], 8192).expect("room");
    // The one before may still be on its way back from the device.
    support::wait_until(|| engine.counters().unwrap().dirty == 4096);
    engine.set_by_name("dirty_age", "0").expect("there is such a setting");
    device.wait_written(8 * 21);
    assert_eq!(device.syncs(), 0, "there was no flush");
}

#[test]
fn a_device_that_the_kernel_does_not_know_needs_threads() {
    let device = VolatileDisk::new(vec![0; 4096]);
    let Ok(engine) = Engine::builder().memory(1 << 20).io_backend(IoBackend::IoUring).build()
    else {
        return;
    };
    let options = OpenOptions::new().volatile(device);
    let error =
        engine.open_with("a device of a test", &options).map(drop).expect_err("no ring reads it");
    assert!(error.to_string().contains("IoBackend::Threads"), "{error}");
}
