//! Flushes that fail, below the real engine: threads write, flush and read over a device that drops
//! some of its cache whenever a flush fails, alone or in a FUA write. docs/guide/durability.md has
//! the invariants, by number.

#![allow(clippy::cast_possible_truncation, reason = "a small device")]

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::recorded;
use crate::support;

use foreread::testing::VolatileDisk;
use foreread::{Engine, File, IoBackend, OpenOptions, WriteError, WriteErrorKind, WriteMode};
use recorded::{Recorded, recorded};
use support::{Random, Watchdog, wait_until_idle};

/// Two sectors, so that neighbours share pages.
const BLOCK: usize = 1024;
const SECTOR: usize = 512;
const WRITERS: usize = 4;
const STEPS: u32 = 1500;

/// What is known of each block.
struct Books {
    /// The newest version that a writer has begun to write.
    issued: Vec<AtomicU32>,
    /// The newest that was acknowledged to be durable.
    durable: Vec<AtomicU32>,
    /// Twice the number of losses that were accepted; odd while one is.
    losses: AtomicU64,
    accepting: Mutex<()>,
    acknowledged: AtomicU64,
    failed: AtomicU64,
    is_over: AtomicBool,
}

impl Books {
    fn new(blocks: usize) -> Self {
        let versions = || (0..blocks).map(|_| AtomicU32::new(0)).collect();
        Self {
            issued: versions(),
            durable: versions(),
            losses: AtomicU64::new(0),
            accepting: Mutex::new(()),
            acknowledged: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    fn read(versions: &[AtomicU32]) -> Vec<u32> {
        versions.iter().map(|version| version.load(Ordering::SeqCst)).collect()
    }

    /// What the owner does when a flush says that writes are lost.
    fn accept_lost(&self, file: &File) {
        let _accepting = self.accepting.lock().expect("a writer that panics ends the test");
        if file.lost_writes().is_pending().unwrap() {
            self.losses.fetch_add(1, Ordering::SeqCst);
            file.lost_writes().accept().expect("not forked");
            self.losses.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn note_error(&self, file: &File, error: &WriteError) {
        self.failed.fetch_add(1, Ordering::SeqCst);
        if let WriteErrorKind::Lost { .. } = error.kind {
            self.accept_lost(file);
            return;
        }
        let WriteErrorKind::Io { source, .. } = &error.kind else { panic!("{error}") };
        assert_eq!(source.raw_os_error(), Some(libc::EIO), "{error}");
    }
}

fn content(block: usize, version: u32) -> Vec<u8> {
    ((block as u64) << 32 | u64::from(version)).to_le_bytes().repeat(BLOCK / 8)
}

fn open(device: &Arc<VolatileDisk>) -> (Recorded, File) {
    let engine = recorded(Engine::builder().memory(1 << 20).io_backend(IoBackend::Threads));
    let volatile = Some(Arc::clone(device));
    let options = OpenOptions::new().write(true).volatile(volatile);
    let file = engine.open_with("a device of a test", &options).expect("threads know it");
    (engine, file)
}

/// The versions of a block's sectors, each whole.
fn versions_of(block: usize, bytes: &[u8]) -> [u32; BLOCK / SECTOR] {
    std::array::from_fn(|sector| {
        let (words, _) = bytes[sector * SECTOR..(sector + 1) * SECTOR].as_chunks::<8>();
        assert!(words.iter().all(|&word| word == words[0]), "block {block} is torn");
        let word = u64::from_le_bytes(words[0]);
        assert_eq!(word >> 32, block as u64, "not of this block");
        word as u32
    })
}

/// One writer has each fourth block.
fn write(file: &File, books: &Books, number: usize, is_never_evicted: bool) {
    let mut random = Random(number as u64 + 1);
    let blocks = books.issued.len();
    // What was written when: versions, and how many losses had been accepted.
    let mut written = vec![(0, u64::MAX); blocks];
    for _ in 0..STEPS {
        let block = random.below((blocks / WRITERS) as u64) as usize * WRITERS + number;
        if random.below(4) == 0 {
            let mut bytes = [0; BLOCK];
            let read = file.read_at(&mut bytes, (block * BLOCK) as u64);
            assert_eq!(read.expect("reads do not fail"), BLOCK);
            let newest = books.issued[block].load(Ordering::SeqCst);
            let oldest = if is_never_evicted {
                newest // Invariant 6.
            } else {
                books.durable[block].load(Ordering::SeqCst)
            };
            for version in versions_of(block, &bytes) {
                assert!((oldest..=newest).contains(&version), "{version} is read, not {oldest}");
            }
        }
        let version = books.issued[block].load(Ordering::SeqCst) + 1;
        books.issued[block].store(version, Ordering::SeqCst);
        let losses = books.losses.load(Ordering::SeqCst);
        let mode = match random.below(16) {
            0 => WriteMode::Fua,
            1 => WriteMode::WriteThrough,
            _ => WriteMode::WriteBack,
        };
        let done = file.write_all_at_with(&content(block, version), (block * BLOCK) as u64, mode);
        match &done {
            Ok(()) if mode == WriteMode::Fua => {
                books.acknowledged.fetch_add(1, Ordering::SeqCst);
                books.durable[block].store(version, Ordering::SeqCst); // Invariant 2.
            }
            Ok(()) => {}
            Err(error) => books.note_error(file, error),
        }
        written[block] = (version, losses);
        if random.below(20) == 0 {
            flush(file, books, &written);
        }
    }
}

/// Invariant 1: what was written before is durable, but for what was lost and accepted.
fn flush(file: &File, books: &Books, written: &[(u32, u64)]) {
    match file.sync_data() {
        Ok(()) => {
            books.acknowledged.fetch_add(1, Ordering::SeqCst);
            let losses = books.losses.load(Ordering::SeqCst);
            for (durable, &(version, then)) in books.durable.iter().zip(written) {
                if then == losses {
                    durable.fetch_max(version, Ordering::SeqCst);
                }
            }
        }
        Err(error) => books.note_error(file, &error),
    }
}

/// Invariants 3 and 7.
fn check(bytes: &[u8], durable: &[u32], issued: &[u32]) {
    for (block, bytes) in bytes.chunks(BLOCK).enumerate() {
        for version in versions_of(block, bytes) {
            let (least, most) = (durable[block], issued[block]);
            assert!(version >= least, "block {block}: {version}, but {least} was acknowledged");
            assert!(version <= most, "block {block}: {version} was never written, only {most}");
        }
    }
}

/// Writes, with power cuts at any time, and returns what there was to see.
fn run(blocks: usize, is_never_evicted: bool) -> Arc<Books> {
    let device = VolatileDisk::new((0..blocks).flat_map(|block| content(block, 0)).collect());
    let (engine, file) = open(&device);
    let books = Arc::new(Books::new(blocks));
    device.fail_flushes(3, 11);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (file, books) = (file.clone(), &books);
                scope.spawn(move || write(&file, books, number, is_never_evicted))
            })
            .collect();
        let cutter = scope.spawn(|| {
            let mut seed = 0;
            while !books.is_over.load(Ordering::SeqCst) {
                let durable = Books::read(&books.durable);
                let bytes = device.cut(seed);
                check(&bytes, &durable, &Books::read(&books.issued));
                seed += 1;
            }
        });
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        books.is_over.store(true, Ordering::SeqCst);
        cutter.join().expect("every cut finds what was acknowledged");
        ended.into_iter().for_each(|it| it.expect("a writer finds what it wrote"));
    });
    device.fail_flushes(0, 0);
    if file.sync_data().is_err() {
        assert!(
            !is_never_evicted || !file.lost_writes().is_pending().unwrap(),
            "all was in memory"
        );
        books.accept_lost(&file);
    }
    file.sync_data().expect("the device is fine, and what was lost is accepted");
    let issued = Books::read(&books.issued);
    let least = if is_never_evicted { issued.clone() } else { Books::read(&books.durable) };
    check(&device.cut(0), &least, &issued);
    assert_eq!(device.cut(0), device.newest(), "all is durable now");
    let stats = engine.counters().unwrap().path;
    assert!(stats.flush_failures > 20, "{} flushes failed", stats.flush_failures);
    assert!(device.flushes_failed() > 20);
    assert!(stats.pages_rewritten > 20, "{} pages were rewritten", stats.pages_rewritten);
    drop(file);
    wait_until_idle(&engine);
    books
}

#[test]
fn nothing_is_lost_while_all_is_in_memory() {
    let _watchdog = Watchdog::new("nothing_is_lost_while_all_is_in_memory");
    let books = run(240, true);
    assert_eq!(books.losses.load(Ordering::SeqCst), 0, "invariant 5: written again, not lost");
    assert!(books.acknowledged.load(Ordering::SeqCst) > 20);
}

#[test]
fn evicted_pages_are_reported_as_lost_and_the_rest_is_durable() {
    let _watchdog = Watchdog::new("what_is_evicted_is_reported_as_lost");
    let books = run(8192, false);
    assert!(books.losses.load(Ordering::SeqCst) > 0, "invariant 5: something was evicted");
    assert!(books.acknowledged.load(Ordering::SeqCst) > 20);
    assert!(books.failed.load(Ordering::SeqCst) > 20);
}
