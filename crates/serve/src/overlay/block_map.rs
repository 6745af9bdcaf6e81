//! Which blocks of an overlay are there: a bit for each, in memory and on disk.
//!
//! In:    blocks that were written; flushes.
//! Out:   runs of blocks that are there, or not.
//! Never: a bit on disk before its block is durable; a bit that is cleared.
//!
//! ```text
//!   bits     what reads go by               set when a block is in the engine's cache
//!   saved    what the file has              set when a block is durable, and written then
//! ```
//!
//! A page of bits that is torn by a crash is right in both halves: each of its bits was there, or
//! was just to be set.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::format::{MAP_AT, OverlayLayout};

/// Which blocks are there.
pub(super) struct BlockMap {
    bits: Box<[AtomicU64]>,
    /// Whether a page of bits has some that are perhaps not saved.
    changed: Box<[AtomicBool]>,
    /// The bits that the file has. Held while they are written.
    saved: Mutex<Box<[u64]>>,
}

impl BlockMap {
    pub(super) fn read(file: &File, layout: OverlayLayout) -> io::Result<Self> {
        let pages = layout.blocks().div_ceil(PAGE_BITS);
        let words = usize::try_from(pages).map_err(io::Error::other)? * PAGE_WORDS;
        let mut saved = vec![0_u64; words].into_boxed_slice();
        let mut bytes = [0; PAGE];
        for (page, words) in saved.chunks_exact_mut(PAGE_WORDS).enumerate() {
            let at = MAP_AT + (page * PAGE) as u64;
            assert!(at + PAGE as u64 <= layout.data_at, "bits are in front of the blocks");
            file.read_exact_at(&mut bytes, at)?;
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            }
        }
        // No bit is set behind the last block; of a damaged file it must not be either.
        for block in layout.blocks()..pages * PAGE_BITS {
            saved[word(block)] &= !bit(block);
        }
        let bits = saved.iter().map(|word| AtomicU64::new(*word)).collect();
        let changed = (0..pages).map(|_| AtomicBool::new(false)).collect();
        Ok(Self { bits, changed, saved: Mutex::new(saved) })
    }

    pub(super) fn count(&self) -> u64 {
        self.bits.iter().map(|word| u64::from(word.load(Ordering::Acquire).count_ones())).sum()
    }

    pub(super) fn has_any(&self, blocks: Range<u64>) -> bool {
        words(blocks).any(|(word, mask)| self.bits[word].load(Ordering::Acquire) & mask != 0)
    }

    pub(super) fn has_all(&self, blocks: Range<u64>) -> bool {
        words(blocks).all(|(word, mask)| self.bits[word].load(Ordering::Acquire) & mask == mask)
    }

    /// Runs of blocks that are there (true) or not, from the first one on.
    pub(super) fn runs(&self, blocks: Range<u64>) -> impl Iterator<Item = (Range<u64>, bool)> {
        let is_there =
            |block: u64| self.bits[word(block)].load(Ordering::Acquire) & bit(block) != 0;
        let mut at = blocks.start;
        std::iter::from_fn(move || {
            let start = at;
            let is_first = at < blocks.end && is_there(at);
            while at < blocks.end && is_there(at) == is_first {
                at += 1;
            }
            (start < at).then_some((start..at, is_first))
        })
    }

    /// These blocks are there, for reads from now on.
    pub(super) fn set(&self, blocks: Range<u64>) {
        for (word, mask) in words(blocks) {
            self.bits[word].fetch_or(mask, Ordering::AcqRel);
            self.changed[word / PAGE_WORDS].store(true, Ordering::Release);
        }
    }

    /// Makes durable what `sync` makes durable: the blocks first, then their bits.
    pub(super) fn save(
        &self,
        file: &File,
        sync: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = self.changed.iter().enumerate();
        let pages: Vec<usize> = changed
            .filter_map(|(page, changed)| changed.swap(false, Ordering::AcqRel).then_some(page))
            .collect();
        // Of this moment: blocks that are written later may not be durable after the sync.
        let bits = |page: usize| {
            let words = &self.bits[page * PAGE_WORDS..(page + 1) * PAGE_WORDS];
            words.iter().map(|word| word.load(Ordering::Acquire)).collect::<Vec<_>>()
        };
        let now: Vec<(usize, Vec<u64>)> = pages.iter().map(|&page| (page, bits(page))).collect();
        let mut before = Vec::new();
        let done = sync().and_then(|()| {
            for (page, now) in now {
                let words = &mut saved[page * PAGE_WORDS..(page + 1) * PAGE_WORDS];
                before.push((page, words.to_vec()));
                words.copy_from_slice(&now);
                write_page(file, page, &saved)?;
            }
            if pages.is_empty() { Ok(()) } else { file.sync_data() }
        });
        if done.is_err() {
            // All of it is to be saved again, by the next flush or FUA write.
            for (page, words) in before {
                saved[page * PAGE_WORDS..(page + 1) * PAGE_WORDS].copy_from_slice(&words);
            }
            pages.iter().for_each(|page| self.changed[*page].store(true, Ordering::Release));
        }
        done
    }

    /// Saves the bits of blocks that are durable, and no others.
    pub(super) fn save_these(&self, file: &File, blocks: Range<u64>) -> io::Result<()> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new: Vec<_> =
            words(blocks).filter(|(word, mask)| saved[*word] & mask != *mask).collect();
        let mut pages: Vec<usize> = is_new.iter().map(|(word, _)| word / PAGE_WORDS).collect();
        pages.dedup();
        let before: Vec<(usize, u64)> =
            is_new.iter().map(|(word, _)| (*word, saved[*word])).collect();
        is_new.iter().for_each(|(word, mask)| saved[*word] |= mask);
        let write = || pages.iter().try_for_each(|page| write_page(file, *page, &saved));
        let done = write().and_then(|()| if pages.is_empty() { Ok(()) } else { file.sync_data() });
        if done.is_err() {
            before.into_iter().for_each(|(word, before)| saved[word] = before);
        }
        done
    }
}

/// Writes a page of bits.
fn write_page(file: &File, page: usize, saved: &[u64]) -> io::Result<()> {
    let words = &saved[page * PAGE_WORDS..(page + 1) * PAGE_WORDS];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    file.write_all_at(&bytes, MAP_AT + (page * PAGE) as u64)
}

/// The words that these blocks have bits in, each with the bits.
fn words(blocks: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    let Range { start, end } = blocks;
    let indices = if start < end { word(start)..word(end - 1) + 1 } else { 0..0 };
    indices.map(move |index| {
        let first = index as u64 * 64;
        let from = start.saturating_sub(first);
        let to = (end - first).min(64);
        let low = |count: u64| if count == 64 { u64::MAX } else { (1 << count) - 1 };
        (index, low(to) & !low(from))
    })
}

fn word(block: u64) -> usize {
    usize::try_from(block / 64).expect("the words of all blocks are in memory")
}

fn bit(block: u64) -> u64 {
    1 << (block % 64)
}

impl fmt::Debug for BlockMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockMap").field("blocks", &self.count()).finish_non_exhaustive()
    }
}

/// Bits are written in pages, which devices write whole.
const PAGE: usize = 4096;
const PAGE_WORDS: usize = PAGE / 8;
const PAGE_BITS: u64 = PAGE as u64 * 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn made(blocks: u64) -> (File, OverlayLayout, BlockMap) {
        let layout = OverlayLayout::new(blocks * 4096);
        let file = tempfile::tempfile().unwrap();
        file.set_len(layout.end()).unwrap();
        let map = BlockMap::read(&file, layout).unwrap();
        (file, layout, map)
    }

    #[test]
    fn runs_and_words_agree_at_the_edges_of_words() {
        let (_, _, map) = made(70_000);
        map.set(63..65);
        map.set(128..192);
        map.set(69_999..70_000);
        let runs: Vec<_> = map.runs(60..200).collect();
        let expected = [
            (60..63, false),
            (63..65, true),
            (65..128, false),
            (128..192, true),
            (192..200, false),
        ];
        assert_eq!(runs, expected);
        for (run, is_there) in expected {
            assert_eq!((map.has_any(run.clone()), map.has_all(run)), (is_there, is_there));
        }
        assert!(!map.has_all(127..192) && !map.has_any(5..5) && map.has_all(5..5));
        assert_eq!((map.count(), map.runs(0..0).count()), (67, 0));
    }

    #[test]
    fn bits_are_saved_with_a_flush_and_those_of_durable_blocks_by_themselves() {
        let (file, layout, map) = made(70_000);
        let read = || BlockMap::read(&file, layout).unwrap();
        map.set(1..3);
        map.set(40_000..40_001);
        assert_eq!(read().count(), 0);
        map.save_these(&file, 40_000..40_001).unwrap();
        assert_eq!((read().count(), read().has_all(40_000..40_001)), (1, true));
        let failed = map.save(&file, || Err(io::Error::other("the blocks are not written")));
        failed.unwrap_err();
        assert_eq!(read().count(), 1, "no bit without its block");
        map.save(&file, || Ok(())).unwrap();
        assert_eq!(read().count(), 3);
        // Blocks that are written while the others are synced wait for the next flush.
        map.save(&file, || {
            map.set(7..8);
            Ok(())
        })
        .unwrap();
        assert_eq!(read().count(), 3);
        map.save(&file, || Ok(())).unwrap();
        assert_eq!(read().count(), 4);
    }

    /// The bits of a flush that failed counted as saved: a FUA write of such a block was answered,
    /// and its bit was nowhere.
    #[test]
    fn after_a_flush_that_failed_a_fua_write_saves_its_bits() {
        let (file, layout, map) = made(70_000);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let cannot_write = File::open(path).unwrap();
        map.set(1..3);
        map.set(40_000..40_001);
        map.save(&cannot_write, || Ok(())).unwrap_err();
        map.save_these(&file, 2..3).unwrap();
        map.save_these(&file, 40_000..40_001).unwrap();
        let read = BlockMap::read(&file, layout).unwrap();
        assert!(read.has_all(2..3) && read.has_all(40_000..40_001), "{read:?}");
        assert_eq!(read.count(), 2, "the other block is perhaps not durable");
        map.save(&file, || Ok(())).unwrap();
        assert_eq!(BlockMap::read(&file, layout).unwrap().count(), 3);
    }

    #[test]
    fn bits_behind_the_last_block_are_not_taken() {
        let (file, layout, _) = made(3);
        file.write_all_at(&[0xff; 64], MAP_AT).unwrap();
        assert_eq!(BlockMap::read(&file, layout).unwrap().count(), 3);
    }
}
