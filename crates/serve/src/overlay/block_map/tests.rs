//! Bits in memory, and on a file whose flushes fail.

use std::cell::{Cell, RefCell};

use super::*;
use crate::overlay::format::BLOCK;

/// A file in memory: a flush that fails drops what was written since the last one.
struct Disk {
    stable: RefCell<Vec<u8>>,
    cached: RefCell<Vec<u8>>,
    /// Flushes, FUA writes among them, that succeed before one fails.
    good: Cell<u32>,
}

impl Disk {
    fn new(blocks: u64) -> (Self, OverlayLayout) {
        let layout = OverlayLayout::new(blocks * BLOCK);
        let file = tempfile::tempfile().unwrap();
        layout.make(&file, &[]).unwrap();
        let mut bytes = vec![0; usize::try_from(layout.data_at).unwrap()];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
        let cached = RefCell::new(bytes.clone());
        (Self { stable: RefCell::new(bytes), cached, good: Cell::new(u32::MAX) }, layout)
    }

    fn map(&self, layout: OverlayLayout) -> Result<BlockMap, String> {
        let stable = self.stable.borrow();
        let read = |bytes: &mut [u8], at: u64| {
            let at = usize::try_from(at).unwrap();
            bytes.copy_from_slice(&stable[at..at + bytes.len()]);
            Ok(())
        };
        BlockMap::read(read, layout).unwrap()
    }

    fn count(&self, layout: OverlayLayout) -> u64 {
        self.map(layout).unwrap().count()
    }

    /// Bytes that reach the medium alone, as of a write that a power cut tears.
    fn store(&self, bytes: &[u8], at: u64) {
        let at = usize::try_from(at).unwrap();
        for image in [&self.stable, &self.cached] {
            image.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    fn tear(&self, at: u64, len: usize) {
        let at = usize::try_from(at).unwrap();
        self.stable.borrow_mut()[at..at + len].iter_mut().for_each(|byte| *byte ^= 0x10);
    }
}

impl BitsFile for Disk {
    fn write(&self, bytes: &[u8], at: u64, fua: bool) -> io::Result<()> {
        let at = usize::try_from(at).unwrap();
        self.cached.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        if fua { self.flush() } else { Ok(()) }
    }

    fn flush(&self) -> io::Result<()> {
        let Some(good) = self.good.get().checked_sub(1) else {
            self.good.set(u32::MAX);
            *self.cached.borrow_mut() = self.stable.borrow().clone();
            return Err(io::Error::other("the cache is dropped"));
        };
        self.good.set(good);
        *self.stable.borrow_mut() = self.cached.borrow().clone();
        Ok(())
    }
}

#[test]
fn runs_and_words_agree_at_the_edges_of_words() {
    let (disk, layout) = Disk::new(70_000);
    let map = disk.map(layout).unwrap();
    map.set(63..65);
    map.set(128..192);
    map.set(69_999..70_000);
    let runs: Vec<_> = map.runs(60..200).collect();
    let expected =
        [(60..63, false), (63..65, true), (65..128, false), (128..192, true), (192..200, false)];
    assert_eq!(runs, expected);
    for (run, is_there) in expected {
        assert_eq!((map.has_any(run.clone()), map.has_all(run)), (is_there, is_there));
    }
    assert!(!map.has_all(127..192) && !map.has_any(5..5) && map.has_all(5..5));
    assert_eq!((map.count(), map.runs(0..0).count()), (67, 0));
}

#[test]
fn bits_are_saved_with_a_flush_and_those_of_durable_blocks_by_themselves() {
    let (disk, layout) = Disk::new(70_000);
    let map = disk.map(layout).unwrap();
    map.set(1..3);
    map.set(40_000..40_001);
    assert_eq!(disk.count(layout), 0);
    map.save_these(&disk, 40_000..40_001, map.reverts()).unwrap();
    assert!(disk.count(layout) == 1 && disk.map(layout).unwrap().has_all(40_000..40_001));
    disk.good.set(0);
    map.save(&disk, || Ok(())).unwrap_err();
    assert_eq!(disk.count(layout), 1, "no bit without its block");
    map.save(&disk, || Ok(())).unwrap();
    assert_eq!(disk.count(layout), 3);
    map.set(7..8);
    map.save(&disk, || Ok(())).unwrap();
    assert_eq!(disk.count(layout), 4);
}

/// A failed flush of the bits was forgotten: the bits counted as saved and were nowhere.
#[test]
fn bits_of_a_flush_that_failed_at_any_step_are_saved_by_the_next_one() {
    for good in 0..3 {
        for fua in [false, true] {
            let (disk, layout) = Disk::new(70_000);
            let map = disk.map(layout).unwrap();
            map.set(1..3);
            map.save(&disk, || Ok(())).unwrap();
            map.set(3..5);
            disk.good.set(good);
            map.save(&disk, || Ok(())).unwrap_err();
            assert!(disk.count(layout) >= 2, "what was acknowledged stays");
            if fua {
                map.save_these(&disk, 3..5, map.reverts()).unwrap();
            } else {
                map.save(&disk, || Ok(())).unwrap();
            }
            assert_eq!(disk.count(layout), 4, "{good} good flushes, FUA {fua}");
        }
    }
}

/// One flipped byte of the bits read as blocks that were never written.
#[test]
fn a_damaged_copy_is_mended_from_the_other_and_two_damaged_ones_are_refused() {
    let (disk, layout) = Disk::new(70_000);
    let map = disk.map(layout).unwrap();
    map.set(1..3);
    map.save(&disk, || Ok(())).unwrap();
    for copy in 0..2 {
        for (offset, len) in [(0, 1), (512, 1000), (4095, 1)] {
            disk.tear(layout.bits_at(0, copy) + offset, len);
            *disk.cached.borrow_mut() = disk.stable.borrow().clone();
            let map = disk.map(layout).unwrap();
            assert_eq!(map.count(), 2);
            map.save(&disk, || Ok(())).unwrap();
            disk.tear(layout.bits_at(0, 1 - copy), 1);
            assert_eq!(disk.count(layout), 2, "the damaged copy was written again");
            disk.tear(layout.bits_at(0, 1 - copy), 1);
        }
    }
    disk.tear(layout.bits_at(0, 0), 1);
    disk.tear(layout.bits_at(0, 1) + 77, 1);
    let line = disk.map(layout).unwrap_err();
    assert!(line.contains("damaged") && line.contains("restore"), "{line}");
}

/// A save that tears the copy it writes leaves the other copy with all that was acknowledged.
#[test]
fn a_torn_write_at_any_step_of_a_save_loses_no_acknowledged_bit() {
    for good in 0..3 {
        for again in 0..3 {
            let (disk, layout) = Disk::new(100);
            let map = disk.map(layout).unwrap();
            map.set(1..3);
            map.save(&disk, || Ok(())).unwrap();
            map.set(3..4);
            disk.good.set(good);
            map.save(&disk, || Ok(())).unwrap_err();
            map.set(4..5);
            disk.good.set(again);
            map.save(&disk, || Ok(())).unwrap_err();
            // The copy that was being written when the last flush failed is torn.
            let next = map.lock().pages[0].next_copy;
            disk.tear(layout.bits_at(0, next) + 100, 700);
            assert!(disk.count(layout) >= 2, "{good} and {again} good flushes");
        }
    }
}

/// A server that was killed between the two copies left new bits in one of them. The next one read
/// them, and began its save with that copy: a torn write took the bits back.
#[test]
fn bits_that_only_one_copy_has_are_written_to_the_other_one_first() {
    for copy in 0..2 {
        let (disk, layout) = Disk::new(100);
        let map = disk.map(layout).unwrap();
        map.set(1..3);
        let words: Vec<u64> = map.bits.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        let newer = BitsPage { layout, page: 0 }.encode(&words);
        disk.write(&newer, layout.bits_at(0, copy), true).unwrap();
        let map = disk.map(layout).unwrap();
        assert_eq!(map.count(), 2, "what one copy has counts");
        map.set(5..6);
        // The blocks are flushed, and the flush of the first copy fails.
        disk.good.set(1);
        map.save(&disk, || Ok(())).unwrap_err();
        let next = map.lock().pages[0].next_copy;
        disk.tear(layout.bits_at(0, next) + 100, 700);
        assert_eq!(disk.count(layout), 2, "the newer copy was {copy}");
    }
}

/// A cut tore a copy of the bits; the next server did not see the bit of a block, and its clients
/// read the base there. A second torn write completed the copy, and the block came back.
#[test]
fn a_bit_that_a_torn_copy_lacks_does_not_come_back_with_a_second_torn_write() {
    for copy in [0, 1] {
        let (disk, layout) = Disk::new(70_000);
        let map = disk.map(layout).unwrap();
        map.set(9..10);
        map.save(&disk, || Ok(())).unwrap();
        // Blocks whose bits are in the first two sectors of 512 bytes. All but the first arrived.
        map.set(1..2);
        map.set(5000..5001);
        let words: Vec<u64> = map.bits.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        let newer = BitsPage { layout, page: 0 }.encode(&words[..PAGE_WORDS]);
        disk.store(&newer[512..], layout.bits_at(0, copy) + 512);

        let map = disk.map(layout).unwrap();
        assert_eq!(map.count(), 1, "the torn copy does not count");
        assert_eq!(map.repair(&disk).unwrap(), 1);
        // The same block again; of the torn write, only the first sector arrived.
        map.set(1..2);
        let words: Vec<u64> = map.bits.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        let again = BitsPage { layout, page: 0 }.encode(&words[..PAGE_WORDS]);
        disk.store(&again[..512], layout.bits_at(0, copy));
        let map = disk.map(layout).unwrap();
        assert!(!map.has_any(5000..5001), "copy {copy}: a block came back");
        assert!(map.has_all(9..10));
    }
}

/// A repair whose flush fails leaves what it found, and is done again by the next server.
#[test]
fn a_repair_that_fails_at_any_flush_loses_no_bit_and_reports_it() {
    for good in 0..2 {
        for copy in 0..2 {
            let (disk, layout) = Disk::new(100);
            let map = disk.map(layout).unwrap();
            map.set(1..3);
            map.save(&disk, || Ok(())).unwrap();
            disk.tear(layout.bits_at(0, copy), 700);
            *disk.cached.borrow_mut() = disk.stable.borrow().clone();
            disk.good.set(good);
            disk.map(layout).unwrap().repair(&disk).unwrap_err();
            assert_eq!(disk.count(layout), 2, "copy {copy}, {good} good flushes");
            disk.map(layout).unwrap().repair(&disk).unwrap();
            let page = |copy| usize::try_from(layout.bits_at(0, copy)).unwrap();
            let stable = disk.stable.borrow();
            assert!(stable[page(0)..][..4096] == stable[page(1)..][..4096], "equal copies");
            drop(stable);
            disk.good.set(0);
            assert_eq!(disk.map(layout).unwrap().repair(&disk).unwrap(), 0);
            assert_eq!(disk.good.get(), 0, "equal copies are not written again");
        }
    }
}
