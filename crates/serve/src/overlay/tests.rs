//! An overlay beside a model in memory: random requests, and what a crash leaves.

use std::path::PathBuf;
use std::sync::Arc;

use foreread::testing::{Faults, Mishap};
use tempfile::TempDir;

use super::*;
use crate::overlay::format::BLOCK_BYTES;

/// Not a multiple of a block.
const SIZE: usize = 40 * 4096 + 123;

struct Lab {
    folder: TempDir,
    engine: Engine,
    identity: SourceIdentity,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("base"), base()).unwrap();
        let engine = Engine::builder().memory(4 << 20).build().unwrap();
        Self { folder, engine, identity: SourceIdentity::new("base", "1") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self, name: &str) -> Overlay {
        let base = self.engine.open(self.path("base")).unwrap();
        Overlay::open(&self.engine, base, &self.identity, &self.path(name)).unwrap()
    }

    /// An overlay whose device fails as it is told.
    fn open_faulty(&self) -> (Overlay, Arc<Faults>) {
        let faults = Arc::new(Faults::default());
        let base = self.engine.open(self.path("base")).unwrap();
        let options = OpenOptions::new().write(true).faults(Arc::clone(&faults));
        let path = self.path("overlay");
        let overlay = Overlay::open_with(&self.engine, base, &self.identity, &path, &options);
        (overlay.unwrap(), faults)
    }

    /// What is on disk at this moment, as another process finds it after a crash.
    fn after_crash(&self) -> Vec<u8> {
        fs::copy(self.path("overlay"), self.path("crashed")).unwrap();
        let engine = Engine::builder().memory(4 << 20).build().unwrap();
        let base = engine.open(self.path("base")).unwrap();
        let path = self.path("crashed");
        contents(&Overlay::open(&engine, base, &self.identity, &path).unwrap())
    }
}

fn base() -> Vec<u8> {
    (0..SIZE).map(|at| u8::try_from((at / 7 + at) % 251).unwrap()).collect()
}

fn contents(overlay: &Overlay) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    overlay.read(&mut bytes, 0).unwrap();
    bytes
}

/// Numbers from a seed.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    /// A range that ends at the end or at a block as often as anywhere.
    fn range(&mut self) -> Range<usize> {
        let mut end = [SIZE, (1 + self.below(40)) * 4096, self.below(SIZE) + 1][self.below(3)];
        let mut start = end - self.below(end.min(9000) + 1);
        if self.below(3) == 0 {
            start -= start % 4096;
        }
        if start == end {
            end = (start + 1).min(SIZE);
            start = end - 1;
        }
        start..end
    }
}

#[test]
fn random_requests_agree_with_a_model_and_survive_what_they_are_promised_to() {
    for seed in 0..12 {
        let mut lab = Lab::new();
        let mut random = Seeded(seed);
        let mut overlay = lab.open("overlay");
        let mut model = base();
        for step in 0..120_u8 {
            let range = random.range();
            let (start, bytes) = (range.start as u64, vec![step; range.len()]);
            let wide = start..range.end as u64;
            match random.below(8) {
                0 | 1 => {
                    let fua = random.below(3) == 0;
                    overlay.write(&bytes, start, fua).unwrap();
                    model[range.clone()].copy_from_slice(&bytes);
                    if fua {
                        let found = lab.after_crash();
                        assert!(found[range.clone()] == bytes, "seed {seed}, step {step}: FUA");
                    }
                }
                2 => {
                    let taken = overlay.try_write(&bytes, start).unwrap();
                    model[range.start..range.start + taken].copy_from_slice(&bytes[..taken]);
                }
                3 => {
                    overlay.zero(wide, random.below(2) == 0).unwrap();
                    model[range].fill(0);
                }
                4 => {
                    overlay.flush().unwrap();
                    assert!(lab.after_crash() == model, "seed {seed}, step {step}: flush");
                }
                5 => {
                    let mut read = vec![0; range.len()];
                    overlay.read(&mut read, start).unwrap();
                    assert!(read == model[range], "seed {seed}, step {step}: read");
                }
                6 => {
                    overlay.flush().unwrap();
                    drop(overlay);
                    lab = Lab { engine: Engine::builder().memory(4 << 20).build().unwrap(), ..lab };
                    overlay = lab.open("overlay");
                }
                _ => {
                    let in_file = overlay.is_in_file(&wide);
                    assert!(!in_file || model[range.clone()] == base()[range], "it is the base's");
                }
            }
            assert!(contents(&overlay) == model, "seed {seed}, step {step}");
        }
    }
}

/// A flush that failed for the bits was unknown to the engine: blocks that the disk dropped with it
/// counted as durable, and later flushes succeeded without them.
#[test]
fn a_flush_that_fails_for_the_bits_has_the_blocks_written_again() {
    let lab = Lab::new();
    let (overlay, faults) = lab.open_faulty();
    let counted = || lab.engine.counters().unwrap().path;
    for (round, block) in (0..).zip([1, 5]) {
        overlay.write(&[7; BLOCK_BYTES], block * BLOCK, false).unwrap();
        // Of the flushes for the blocks, for one copy of the bits and for the other.
        let failing = u32::try_from(round + 1).unwrap();
        faults.clear();
        faults.inject_syncs(failing..failing + 1, Mishap::Errno(5));
        let rewritten = counted().pages_rewritten;
        overlay.flush().unwrap_err();
        assert_eq!(counted().flush_failures, round + 1, "the engine knows of it");
        overlay.flush().unwrap();
        assert!(counted().pages_rewritten > rewritten, "what was unstable is written again");
        assert!(lab.after_crash() == contents(&overlay));
    }
}

/// A block that was written for the first time and lost read as zeros after the loss was accepted.
/// A partial FUA write to it saved its bit over the lost bytes beside the write.
#[test]
fn blocks_that_are_lost_before_their_first_flush_revert_to_the_base() {
    for is_accepted_first in [false, true] {
        let lab = Lab::new();
        let (overlay, faults) = lab.open_faulty();
        overlay.write(&[5; BLOCK_BYTES], 9 * BLOCK, true).unwrap();
        overlay.write(&[7; BLOCK_BYTES], BLOCK, false).unwrap();
        // No frame holds zeroes, so a flush that fails after them loses writes.
        overlay.zero(3 * BLOCK..4 * BLOCK, false).unwrap();
        faults.inject_syncs(0..1, Mishap::Errno(5));
        overlay.written_file().sync_data().unwrap_err();
        assert!(overlay.written_file().lost_writes().is_pending().unwrap(), "the zeroes are lost");
        let mut model = base();
        model[9 * BLOCK_BYTES..10 * BLOCK_BYTES].fill(5);
        if is_accepted_first {
            overlay.losses().accept().unwrap();
            assert!(contents(&overlay) == model, "what no flush covered is the base's");
        }
        // Part of a lost block, with its bit still set in memory unless the loss was accepted.
        overlay.write(&[8; 100], 3 * BLOCK + 50, true).unwrap();
        model[3 * BLOCK_BYTES + 50..3 * BLOCK_BYTES + 150].fill(8);
        assert!(contents(&overlay) == model, "accepted first: {is_accepted_first}");
        assert!(lab.after_crash() == model, "accepted first: {is_accepted_first}");
        if !is_accepted_first {
            overlay.flush().unwrap_err();
            assert!(contents(&overlay) == model, "one loss reverts blocks once");
            overlay.write(&[9; BLOCK_BYTES], BLOCK, false).unwrap();
            model[BLOCK_BYTES..2 * BLOCK_BYTES].fill(9);
            overlay.losses().accept().unwrap();
        }
        assert!(contents(&overlay) == model, "what was written again stays");
        overlay.flush().unwrap();
        assert!(lab.after_crash() == model, "accepted first: {is_accepted_first}");
    }
}

/// A loss that was accepted of the file, not of the overlay, left the bits of lost blocks set.
#[test]
fn a_loss_that_was_accepted_of_the_file_fails_the_next_flush_of_the_overlay() {
    let lab = Lab::new();
    let (overlay, faults) = lab.open_faulty();
    overlay.zero(3 * BLOCK..4 * BLOCK, false).unwrap();
    faults.inject_syncs(0..1, Mishap::Errno(5));
    overlay.written_file().sync_data().unwrap_err();
    overlay.written_file().lost_writes().accept().unwrap();
    overlay.flush().unwrap_err();
    assert!(contents(&overlay) == base() && lab.after_crash() == base());
    overlay.flush().unwrap();
}

#[test]
fn a_file_whose_record_of_blocks_is_damaged_is_refused_and_kept() {
    let lab = Lab::new();
    drop(lab.open("overlay"));
    let mut bytes = fs::read(lab.path("overlay")).unwrap();
    bytes[4096 + 9] ^= 1;
    fs::write(lab.path("overlay"), &bytes).unwrap();
    assert_eq!(lab.open("overlay").written(), 0, "one copy is enough");
    let repaired = fs::read(lab.path("overlay")).unwrap();
    assert!(repaired[4096..8192] == repaired[8192..12288], "the damaged copy is written again");
    bytes[8192..8192 + 4096].fill(0);
    fs::write(lab.path("overlay"), &bytes).unwrap();
    let base = lab.engine.open(lab.path("base")).unwrap();
    let opened = Overlay::open(&lab.engine, base, &lab.identity, &lab.path("overlay"));
    let line = opened.unwrap_err().to_string();
    assert!(line.contains("overlay: both copies") && line.contains("bytes 0 to"), "{line}");
    assert!(fs::read(lab.path("overlay")).unwrap() == bytes);
}

#[test]
fn only_what_needs_the_base_waits_for_it() {
    let lab = Lab::new();
    let overlay = lab.open("overlay");
    overlay.write(&[1; BLOCK_BYTES], 4096, false).unwrap();
    let waits = |range: Range<u64>, is_write| overlay.waits_for_base(&range, is_write);
    assert!(!waits(4096..8192, false) && !waits(5000..5001, true));
    assert!(waits(4095..8192, false) && waits(4095..8192, true) && waits(4096..8193, true));
    assert!(!waits(8192..40_960, true), "whole blocks");
    assert!(!waits(40 * 4096..SIZE as u64, true), "the last block ends with the base");
    assert!(waits(40 * 4096 + 1..SIZE as u64, true));
}

#[test]
fn only_blocks_that_were_written_differ_from_the_base() {
    let lab = Lab::new();
    let overlay = lab.open("overlay");
    assert_eq!((overlay.written(), overlay.is_in_file(&(0..SIZE as u64))), (0, true));
    assert_eq!(overlay.try_write(b"new", 4095).unwrap(), 0, "what lies beside it has to be read");
    overlay.write(b"new", 4095, false).unwrap();
    assert_eq!(overlay.written(), 2 * 4096);
    assert_eq!(overlay.try_write(b"now", 4095).unwrap(), 3);
    assert!(overlay.is_in_file(&(8192..SIZE as u64)) && !overlay.is_in_file(&(0..1)));
    let end = SIZE as u64;
    overlay.write(b"end", end - 3, true).unwrap();
    overlay.discard(0..end).unwrap();
    let found = contents(&overlay);
    assert!(found[8192..SIZE - 123] == base()[8192..SIZE - 123], "what was not written stays");
    assert_eq!(overlay.extents(5..77).unwrap(), [(5..77, true)]);
}

/// Two writers of one block: the second one must not bring back what the base has there.
#[test]
fn first_writes_of_one_block_from_many_threads_are_all_kept() {
    let lab = Lab::new();
    let overlay = lab.open("overlay");
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let overlay = &overlay;
            scope.spawn(move || {
                for block in 0..40_u64 {
                    let at = block * 4096 + u64::from(thread) * 512;
                    overlay.write(&[thread; 512], at, false).unwrap();
                }
            });
        }
    });
    let found = contents(&overlay);
    for (at, byte) in found[..40 * 4096].iter().enumerate() {
        assert_eq!(usize::from(*byte), at % 4096 / 512, "byte {at}");
    }
}

#[test]
fn another_version_another_base_and_a_second_user_are_refused() {
    let lab = Lab::new();
    let overlay = lab.open("overlay");
    let refused = |identity: &SourceIdentity| {
        let base = lab.engine.open(lab.path("base")).unwrap();
        let opened = Overlay::open(&lab.engine, base, identity, &lab.path("overlay"));
        opened.unwrap_err().to_string()
    };
    assert!(refused(&lab.identity).contains("in use by another program"));
    drop(overlay);
    let line = refused(&SourceIdentity::new("base", "2"));
    assert!(line.contains("overlay of base in version '1'"), "{line}");
    fs::write(lab.path("overlay"), "something else").unwrap();
    assert!(refused(&lab.identity).contains("is not an overlay"));
    assert_eq!(fs::read(lab.path("overlay")).unwrap(), b"something else");
}
